// A driver and a compiler that are none: enough of both for the CUDA device to run on the emulator.
//
// Streams do nothing until somebody waits. Then whatever may run next is drawn at random: streams go
// on in order, events are waited for, and nothing else is ordered. Time is counted in steps. What the
// environment says: TIDEGATE_DEVICES (default 1), TIDEGATE_MEMORY in bytes (default 1 GiB),
// TIDEGATE_CAPABILITY (default 90), TIDEGATE_DRIVER (default 12000), TIDEGATE_NVRTC (default 12, its version),
// TIDEGATE_BLAS_FAILS (1 if cuBLAS cannot be opened), TIDEGATE_SEED, TIDEGATE_DAMAGE (whether
// what is read back is wrong), TIDEGATE_PINNED (the most bytes of pinned memory at once), TIDEGATE_NOT_PINNED and
// TIDEGATE_LOST (the number of an allocation of pinned memory, counted from 1, that fails, or with which the device
// is lost), TIDEGATE_CALLS (a file to which a line is added for each program that is compiled, each allocation, each
// stream that is made, with its priority, and each fill). It has the functions that drivers for CUDA 12.0 have, and
// none that came later.

#include <algorithm>
#include <cstdarg>
#include <deque>
#include <functional>
#include <set>

namespace stand_in {

static uint64_t setting(const char* name, uint64_t otherwise) {
    const char* text = getenv(name);
    return text ? strtoull(text, nullptr, 10) : otherwise;
}

static void note(const char* format, ...) {
    const char* path = getenv("TIDEGATE_CALLS");
    if (!path) return;
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    // In one piece: others write, too.
    FILE* file = fopen(path, "a");
    fprintf(file, "%s\n", line);
    fclose(file);
}

struct Record {
    bool done;
    uint64_t at;
};

struct Event;
struct Stream;

// What a stream was given while it was captured (see `graph.h`).
struct Node {
    std::function<void()> run;
    Event* records;
    std::vector<Node*> after;
};

struct Capture {
    Stream* origin;
    std::vector<Node*> nodes;
    bool broken;
};

struct Event {
    std::vector<Record*> records;
    bool timed = true;
    // Where a capture was when it was recorded there.
    Capture* capture = nullptr;
    std::vector<Node*> last;
};

struct Work {
    // None for what only waits.
    std::function<void()> run;
    Record* waits;
    Record* records;
};

struct Stream {
    std::deque<Work> queue;
    uint64_t now = 0;
    Capture* capture = nullptr;
    std::vector<Node*> last;
};

struct Module {
    std::string program;
};

static std::vector<Stream*> streams;
static unsigned captures;
static uint64_t allocated;
static uint64_t pinned;
static bool lost;
static std::map<void*, uint64_t> allocations;

static bool step(Stream* stream) {
    if (stream->queue.empty()) return false;
    Work& work = stream->queue.front();
    if (work.waits && !work.waits->done) return false;
    if (work.waits && work.waits->at > stream->now) stream->now = work.waits->at;
    if (work.run) {
        work.run();
        stream->now += 1000 + emulator::next() % 1000;
    }
    if (work.records) *work.records = Record{true, stream->now};
    stream->queue.pop_front();
    return true;
}

static int drain() {
    for (;;) {
        bool left = false;
        for (Stream* stream : streams) left = left || !stream->queue.empty();
        if (!left) {
            // Who waited for all gives more from now on, which starts no earlier.
            uint64_t now = 0;
            for (Stream* stream : streams) now = std::max(now, stream->now);
            for (Stream* stream : streams) stream->now = now;
            return 0;
        }
        // Some stream can go on, or the order has a circle.
        size_t first = emulator::next() % streams.size();
        bool went = false;
        for (size_t i = 0; i < streams.size() && !went; i++) went = step(streams[(first + i) % streams.size()]);
        if (!went) return 719;
    }
}

static void captured(Stream* stream, std::function<void()> run, Event* records) {
    Node* node = new Node{run, records, stream->last};
    stream->capture->nodes.push_back(node);
    stream->last = {node};
}

// What would not wait for a capture breaks it.
static int unless_captured() {
    for (Stream* stream : streams) {
        if (stream->capture) stream->capture->broken = true;
    }
    return captures > 0 ? 900 : 0;
}

static bool is_busy() {
    for (Stream* stream : streams) {
        if (!stream->queue.empty()) return true;
    }
    return false;
}

}  // namespace stand_in

#define API extern "C" __attribute__((visibility("default"))) int

using namespace stand_in;

API cuInit(unsigned) {
    emulator::state = setting("TIDEGATE_SEED", 1);
    return setting("TIDEGATE_DEVICES", 1) == 0 ? 100 : 0;
}
API cuGetErrorString(int error, const char** text) {
    *text = error == 100 ? "no CUDA-capable device is detected" : error == 2 ? "out of memory" : "an error";
    return 0;
}
API cuGetErrorName(int error, const char** text) { return cuGetErrorString(error, text); }
API cuDeviceGetCount(int* count) { return *count = setting("TIDEGATE_DEVICES", 1), 0; }
API cuDeviceGet(int* device, int ordinal) { return *device = ordinal, 0; }
API cuDeviceGetName(char* name, int bytes, int) { return snprintf(name, bytes, "stand-in"), 0; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
    uint64_t capability = setting("TIDEGATE_CAPABILITY", 90);
    switch (attribute) {
        case 13: return *value = 1500000, 0;  // Clock in kHz.
        case 16: return *value = 2, 0;        // Multiprocessors.
        case 36: return *value = 2000000, 0;  // Clock of the memory in kHz.
        case 37: return *value = 256, 0;      // Its width in bits.
        case 38: return *value = 4096, 0;     // Bytes of the cache.
        case 75: return *value = capability / 10, 0;
        case 76: return *value = capability % 10, 0;
        default: return *value = 0, 0;
    }
}
API cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = setting("TIDEGATE_MEMORY", 1 << 30), 0; }
API cuDeviceGetUuid(void* uuid, int) {
    for (int i = 0; i < 16; i++) ((unsigned char*)uuid)[i] = 16 * i + i;
    return 0;
}
API cuDriverGetVersion(int* version) { return *version = setting("TIDEGATE_DRIVER", 12000), 0; }
static int context;
API cuDevicePrimaryCtxRetain(void** to, int) { return *to = &context, 0; }
API cuDevicePrimaryCtxRelease_v2(int) { return 0; }
API cuCtxGetCurrent(void** to) { return *to = &context, 0; }
API cuCtxSetCurrent(void*) { return 0; }
// What a device that is lost says to everything.
static const int LOST = 719;
API cuCtxSynchronize() {
    if (lost) return LOST;
    int error = unless_captured();
    return error ? error : drain();
}
API cuMemGetInfo_v2(size_t* free, size_t* total) {
    if (lost) return LOST;
    *total = setting("TIDEGATE_MEMORY", 1 << 30);
    *free = *total - allocated;
    return 0;
}
static int allocate(void** to, size_t bytes) {
    // Poison, so that nothing that is not written first is a number.
    if (posix_memalign(to, 4096, bytes + 4096)) return 2;
    memset(*to, 0xff, bytes);
    return 0;
}
API cuMemAlloc_v2(uint64_t* to, size_t bytes) {
    size_t free, total;
    if (int error = unless_captured()) return error;
    cuMemGetInfo_v2(&free, &total);
    if (bytes > free) return 2;
    note("allocate %zu", bytes);
    void* memory;
    int error = allocate(&memory, bytes);
    *to = (uint64_t)memory;
    allocated += bytes;
    allocations[memory] = bytes;
    return error;
}
API cuMemGetAddressRange_v2(uint64_t* begin, size_t* bytes, uint64_t at) {
    auto after = allocations.upper_bound((void*)at);
    if (after == allocations.begin()) return 1;
    const auto& found = *std::prev(after);
    return *begin = (uint64_t)found.first, *bytes = found.second, at > *begin + *bytes ? 1 : 0;
}
API cuMemFree_v2(uint64_t at) {
    if (is_busy() || !allocations.count((void*)at)) return 1;
    allocated -= allocations[(void*)at];
    allocations.erase((void*)at);
    free((void*)at);
    return 0;
}
API cuMemHostAlloc(void** to, size_t bytes, unsigned flags) {
    note("pin %zu", bytes);
    pinned++;
    lost = lost || pinned == setting("TIDEGATE_LOST", 0);
    if (lost) return LOST;
    if (pinned == setting("TIDEGATE_NOT_PINNED", 0)) return 2;
    return bytes > setting("TIDEGATE_PINNED", ~0ull) || flags != 0 ? 2 : allocate(to, bytes);
}
API cuMemFreeHost(void* at) { return is_busy() ? 1 : (free(at), 0); }
// Returns when the bytes have been taken, which may be before they arrive; streams do not wait for it.
API cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
    static Stream* own = nullptr;
    if (is_busy() || unless_captured()) return 1;
    if (!own) streams.push_back(own = new Stream);
    std::string taken((const char*)from, bytes);
    own->queue.push_back(Work{[=] { memcpy((void*)to, taken.data(), taken.size()); }, nullptr, nullptr});
    return 0;
}
API cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
    if (is_busy() || unless_captured()) return 1;
    memcpy(to, (void*)from, bytes);
    // A device that computes wrongly, for what must notice it.
    if (bytes > 64 && setting("TIDEGATE_DAMAGE", 0)) ((char*)to)[bytes / 2] ^= 1;
    return 0;
}
static int later(void* at, std::function<void()> run) {
    Stream* stream = (Stream*)at;
    if (stream->capture) return captured(stream, run, nullptr), 0;
    stream->queue.push_back(Work{run, nullptr, nullptr});
    return 0;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
    return later(stream, [=] { memcpy((void*)to, from, bytes); });
}
API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
    return later(stream, [=] { memcpy(to, (void*)from, bytes); });
}
API cuLaunchHostFunc(void* stream, void (*work)(void*), void* data) {
    return later(stream, [=] { work(data); });
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
    return later(stream, [=] { memcpy((void*)to, (void*)from, bytes); });
}
API cuMemsetD8Async(uint64_t at, unsigned char byte, size_t bytes, void* stream) {
    note("fill %zu", bytes);
    return later(stream, [=] { memset((void*)at, byte, bytes); });
}
API cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, 0; }
API cuStreamCreateWithPriority(void** to, unsigned, int priority) {
    note("stream %d", priority);
    Stream* stream = new Stream;
    streams.push_back(stream);
    return *to = stream, 0;
}
API cuStreamDestroy_v2(void* stream) {
    for (size_t i = 0; i < streams.size(); i++) {
        if (streams[i] == stream) streams.erase(streams.begin() + i);
    }
    delete (Stream*)stream;
    return 0;
}
API cuStreamSynchronize(void*) { return drain(); }
API cuEventCreate(void** to, unsigned flags) {
    Event* event = new Event;
    event->timed = (flags & 2) == 0;
    return *to = event, 0;
}
API cuEventDestroy_v2(void* event) {
    for (Record* record : ((Event*)event)->records) delete record;
    delete (Event*)event;
    return 0;
}
API cuEventRecord(void* at, void* on) {
    Event* event = (Event*)at;
    Stream* stream = (Stream*)on;
    event->capture = stream->capture;
    event->last = stream->last;
    if (stream->capture) return 0;
    Record* record = new Record{false, 0};
    event->records.push_back(record);
    stream->queue.push_back(Work{nullptr, nullptr, record});
    return 0;
}
API cuStreamWaitEvent(void* on, void* at, unsigned) {
    Event* event = (Event*)at;
    Stream* stream = (Stream*)on;
    if (event->capture) {
        // A stream with something to do already cannot be captured from there on.
        if (stream->capture ? stream->capture != event->capture : !stream->queue.empty()) return 905;
        if (!stream->capture) stream->last.clear();
        stream->capture = event->capture;
        for (Node* node : event->last) {
            if (std::find(stream->last.begin(), stream->last.end(), node) == stream->last.end()) {
                stream->last.push_back(node);
            }
        }
        return 0;
    }
    if (stream->capture) return 905;
    // What was never recorded is not waited for.
    auto& records = event->records;
    if (!records.empty()) stream->queue.push_back(Work{nullptr, records.back(), nullptr});
    return 0;
}
API cuEventSynchronize(void*) { return drain(); }
API cuEventElapsedTime(float* to, void* start, void* end) {
    if (((Event*)start)->capture || ((Event*)end)->capture) return 400;
    if (!((Event*)start)->timed || !((Event*)end)->timed) return 400;
    auto &first = ((Event*)start)->records, &last = ((Event*)end)->records;
    if (first.empty() || last.empty()) return 400;
    *to = ((double)last.back()->at - (double)first.back()->at) / 1e6;
    return 0;
}
API cuModuleLoadData(void** to, const void* image) {
    std::string name = (const char*)image;
    return *to = new Module{name.substr(0, name.find(' '))}, 0;
}
API cuModuleUnload(void* module) { return delete (Module*)module, 0; }
API cuModuleGetFunction(void** to, void* module, const char* kernel) {
    auto entry = emulator::kernels.find(((Module*)module)->program + "/" + kernel);
    if (entry == emulator::kernels.end()) return 500;
    return *to = (void*)&entry->second, 0;
}
API cuLaunchKernel(void* function, unsigned blocks, unsigned y, unsigned z, unsigned threads, unsigned ty,
    unsigned tz, unsigned shared, void* stream, void** parameters, void** extra) {
    const emulator::Entry* kernel = (const emulator::Entry*)function;
    if (y * z * ty * tz != 1 || shared != 0 || extra != nullptr || blocks == 0) return 1;
    std::vector<uint64_t> arguments;
    for (size_t i = 0; i < kernel->arguments; i++) arguments.push_back(*(uint64_t*)parameters[i]);
    return later(stream, [=] { emulator::launch(*kernel, blocks, threads, arguments.data()); });
}

// cuBLAS on a stream, which must have been given memory to work in.
struct Blas {
    void* stream;
    bool has_workspace;
};
extern "C" __attribute__((visibility("default"))) const char* cublasGetStatusString(int) { return "an error"; }
API cublasGetProperty(int property, int* value) {
    return *value = property == 0 ? 12 : 0, 0;
}
API cublasCreate_v2(void** to) {
    return setting("TIDEGATE_BLAS_FAILS", 0) ? 1 : (*to = new Blas{nullptr, false}, 0);
}
API cublasDestroy_v2(void* blas) { return delete (Blas*)blas, 0; }
API cublasSetStream_v2(void* blas, void* stream) { return ((Blas*)blas)->stream = stream, 0; }
API cublasSetWorkspace_v2(void* blas, void* memory, size_t bytes) {
    ((Blas*)blas)->has_workspace = memory != nullptr && bytes > 0 && (uint64_t)memory % 256 == 0;
    return 0;
}
API cublasSgemmStridedBatched(void* blas, int ta, int tb, int m, int n, int k, const float* alpha, const float* a,
    int lda, long long apart_a, const float* b, int ldb, long long apart_b, const float* beta, float* c, int ldc,
    long long apart_c, int batch) {
    Blas* own = (Blas*)blas;
    bool fits = lda >= (ta ? k : m) && ldb >= (tb ? n : k) && ldc >= m && m > 0 && n > 0 && k > 0 && batch > 0;
    if (!own->has_workspace || !own->stream || !fits) return 7;
    float scale = *alpha, keep = *beta;
    return later(own->stream, [=] {
        for (long i = 0; i < (long)batch * m * n; i++) {
            long one = i / m / n, row = i % m, column = i / m % n;
            float sum = 0;
            for (long l = 0; l < k; l++) {
                sum += a[one * apart_a + (ta ? l + row * lda : row + l * lda)]
                    * b[one * apart_b + (tb ? column + l * ldb : l + column * ldb)];
            }
            float* to = c + one * apart_c + row + column * (long)ldc;
            *to = scale * sum + (keep == 0 ? 0.0f : keep * *to);
        }
    });
}

// Of operands in bfloat16 and an output of floats, which devices have from 8.0 on.
API cublasGemmStridedBatchedEx(void* blas, int ta, int tb, int m, int n, int k, const void* alpha, const void* a_at,
    int a_type, int lda, long long apart_a, const void* b_at, int b_type, int ldb, long long apart_b, const void* beta,
    void* c_at, int c_type, int ldc, long long apart_c, int batch, int compute, int algorithm) {
    Blas* own = (Blas*)blas;
    bool fits = lda >= (ta ? k : m) && ldb >= (tb ? n : k) && ldc >= m && m > 0 && n > 0 && k > 0 && batch > 0;
    if (!own->has_workspace || !own->stream || !fits) return 7;
    // CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT.
    if (a_type != 14 || b_type != 14 || c_type != 0 || compute != 68 || algorithm != -1) return 15;
    if (setting("TIDEGATE_CAPABILITY", 90) < 80) return 8;
    float scale = *(const float*)alpha, keep = *(const float*)beta;
    const uint16_t *a = (const uint16_t*)a_at, *b = (const uint16_t*)b_at;
    return later(own->stream, [=] {
        auto wide = [](uint16_t half) {
            uint32_t bits = (uint32_t)half << 16;
            float number;
            memcpy(&number, &bits, 4);
            return number;
        };
        for (long i = 0; i < (long)batch * m * n; i++) {
            long one = i / m / n, row = i % m, column = i / m % n;
            float sum = 0;
            for (long l = 0; l < k; l++) {
                sum += wide(a[one * apart_a + (ta ? l + row * lda : row + l * lda)])
                    * wide(b[one * apart_b + (tb ? column + l * ldb : l + column * ldb)]);
            }
            float* to = (float*)c_at + one * apart_c + row + column * (long)ldc;
            *to = scale * sum + (keep == 0 ? 0.0f : keep * *to);
        }
    });
}

// What is compiled is the program's name and the architecture.
struct Compiled {
    std::string text;
};
API nvrtcCreateProgram(void** to, const char*, const char* name, int, const char* const*, const char* const*) {
    std::string program = name;
    return *to = new Compiled{program.substr(0, program.find('.'))}, 0;
}
API nvrtcCompileProgram(void* program, int count, const char* const* options) {
    note("compile %s", ((Compiled*)program)->text.c_str());
    for (int i = 0; i < count; i++) ((Compiled*)program)->text += std::string(" ") + options[i];
    return 0;
}
// Machine code is made for what is said as `sm_`, and text always.
static bool is_machine_code(void* program) {
    return ((Compiled*)program)->text.find("--gpu-architecture=sm_") != std::string::npos;
}
extern "C" __attribute__((visibility("default"))) const char* nvrtcGetErrorString(int) { return "an error"; }
API nvrtcVersion(int* major, int* minor) { return *major = setting("TIDEGATE_NVRTC", 12), *minor = 0; }
static const int ARCHITECTURES[] = {70, 75, 80, 90};
API nvrtcGetNumSupportedArchs(int* count) { return *count = 4, 0; }
API nvrtcGetSupportedArchs(int* to) { return memcpy(to, ARCHITECTURES, sizeof ARCHITECTURES), 0; }
API nvrtcGetCUBINSize(void* program, size_t* bytes) {
    return *bytes = is_machine_code(program) ? ((Compiled*)program)->text.size() + 1 : 0, 0;
}
API nvrtcGetCUBIN(void* program, char* to) {
    return is_machine_code(program) ? (strcpy(to, ((Compiled*)program)->text.c_str()), 0) : 3;
}
API nvrtcGetPTXSize(void* program, size_t* bytes) { return *bytes = ((Compiled*)program)->text.size() + 1, 0; }
API nvrtcGetPTX(void* program, char* to) { return strcpy(to, ((Compiled*)program)->text.c_str()), 0; }
API nvrtcGetProgramLogSize(void*, size_t* bytes) { return *bytes = 1, 0; }
API nvrtcGetProgramLog(void*, char* to) { return *to = 0, 0; }
API nvrtcDestroyProgram(void** program) { return delete (Compiled*)*program, 0; }
