// What the kernels use of CUDA, on one thread of a CPU.
//
// Blocks of threads run one after the other, in an order that changes with the seed. Threads of a
// block are fibres: each runs until it waits for its warp or its block, and which one goes on then
// is drawn at random. So a missing synchronisation shows as bytes that differ between seeds.
// Shared memory is poisoned before each block. A warp is 32 threads, all of which must take part in
// what a warp does together; if not all do, or a block waits for a thread that has ended, that is said.
//
// Memory of kernels is mapped with a page behind it that nobody may touch.

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("emulated_shared")))
#define __restrict__

struct dim3 {
    unsigned x, y, z;
};

namespace emulator {

constexpr unsigned LANES = 32;
constexpr size_t STACK = 256 << 10;

struct Fibre {
    ucontext_t start;
    jmp_buf at;
    bool started, ended;
    // What it waits for: nothing, its warp or its block.
    enum { Nothing, Warp, Block } waits;
    uint64_t value;
    std::vector<char> stack;
};

static std::vector<Fibre> fibres;
static unsigned threads, running;
static jmp_buf scheduler;
static void (*body)(void*);
static void* body_argument;
static uint64_t state;

static uint64_t next() {
    state += 0x9e3779b97f4a7c15ull;
    uint64_t z = state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

[[noreturn]] static void fail(const char* what) {
    fprintf(stderr, "emulator: %s\n", what);
    exit(3);
}

// A fibre lives as long as the process: when its thread has ended, it waits to be another.
static void begin() {
    for (;;) {
        body(body_argument);
        fibres[running].ended = true;
        if (setjmp(fibres[running].at) == 0) longjmp(scheduler, 1);
    }
}

static void wait(decltype(Fibre::waits) what) {
    Fibre& own = fibres[running];
    own.waits = what;
    if (setjmp(own.at) == 0) longjmp(scheduler, 1);
}

// Lets all threads of a group go on that is complete.
static bool release(decltype(Fibre::waits) what, unsigned first, unsigned count) {
    for (unsigned i = first; i < first + count; i++) {
        if (fibres[i].ended || fibres[i].waits != what) return false;
    }
    for (unsigned i = first; i < first + count; i++) fibres[i].waits = Fibre::Nothing;
    return true;
}

static void run_block() {
    for (unsigned i = 0; i < threads; i++) {
        fibres[i].ended = false;
        fibres[i].waits = Fibre::Nothing;
    }
    std::vector<unsigned> ready(threads);
    for (unsigned i = 0; i < threads; i++) ready[i] = i;
    static volatile unsigned left;
    left = threads;
    while (left > 0) {
        if (ready.empty()) fail("threads wait for others that do not come");
        size_t draw = next() % ready.size();
        running = ready[draw];
        ready[draw] = ready.back();
        ready.pop_back();
        if (setjmp(scheduler) == 0) {
            Fibre& fibre = fibres[running];
            if (fibre.started) longjmp(fibre.at, 1);
            fibre.started = true;
            getcontext(&fibre.start);
            fibre.start.uc_stack.ss_sp = fibre.stack.data();
            fibre.start.uc_stack.ss_size = fibre.stack.size();
            fibre.start.uc_link = nullptr;
            makecontext(&fibre.start, begin, 0);
            setcontext(&fibre.start);
        }
        if (fibres[running].ended) {
            left = left - 1;
            continue;
        }
        unsigned first = running / LANES * LANES;
        if (fibres[running].waits == Fibre::Warp && release(Fibre::Warp, first, LANES)) {
            for (unsigned i = first; i < first + LANES; i++) ready.push_back(i);
        }
        if (fibres[running].waits == Fibre::Block && release(Fibre::Block, 0, threads)) {
            for (unsigned i = 0; i < threads; i++) ready.push_back(i);
        }
    }
}

// What each lane gives, seen by all lanes.
static uint64_t exchanged[2][1024];

template <class T> static void exchange(T value, T* all) {
    static_assert(sizeof(T) <= 8, "");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof(T));
    unsigned own = running, first = own / LANES * LANES;
    exchanged[0][own] = bits;
    wait(Fibre::Warp);
    for (unsigned i = 0; i < LANES; i++) memcpy(&all[i], &exchanged[0][first + i], sizeof(T));
    wait(Fibre::Warp);
}

}  // namespace emulator

static dim3 blockIdx, gridDim, blockDim;
struct EmulatedThread {
    struct {
        operator unsigned() const { return emulator::running; }
    } x;
};
static EmulatedThread threadIdx;

static void __syncthreads() { emulator::wait(emulator::Fibre::Block); }
static void __syncwarp(unsigned = ~0u) { emulator::wait(emulator::Fibre::Warp); }

static int __syncthreads_and(int value) {
    unsigned own = emulator::running;
    emulator::exchanged[1][own] = value != 0;
    __syncthreads();
    int all = 1;
    for (unsigned i = 0; i < emulator::threads; i++) all = all && emulator::exchanged[1][i];
    __syncthreads();
    return all;
}

static unsigned __ballot_sync(unsigned, int value) {
    unsigned all[32], ballot = 0;
    emulator::exchange(unsigned(value != 0), all);
    for (unsigned i = 0; i < 32; i++) ballot |= all[i] << i;
    return ballot;
}

template <class T> static T __shfl_sync(unsigned, T value, unsigned from) {
    T all[32];
    emulator::exchange(value, all);
    return all[from % 32];
}

template <class T> static T __shfl_up_sync(unsigned, T value, unsigned distance) {
    T all[32];
    unsigned own = emulator::running % 32;
    emulator::exchange(value, all);
    return own >= distance ? all[own - distance] : value;
}

template <class T> static T __shfl_down_sync(unsigned, T value, unsigned distance) {
    T all[32];
    unsigned own = emulator::running % 32;
    emulator::exchange(value, all);
    return own + distance < 32 ? all[own + distance] : value;
}

template <class T> static T __shfl_xor_sync(unsigned, T value, unsigned with) {
    T all[32];
    unsigned own = emulator::running % 32;
    emulator::exchange(value, all);
    return all[own ^ with];
}

// One thread at a time runs, and none is interrupted: whatever it does is atomic.
template <class T> static T atomicAdd(T* at, T value) { T old = *at; *at = old + value; return old; }
template <class T> static T atomicOr(T* at, T value) { T old = *at; *at = old | value; return old; }
template <class T> static T atomicMin(T* at, T value) { T old = *at; *at = value < old ? value : old; return old; }
template <class T> static T atomicMax(T* at, T value) { T old = *at; *at = value > old ? value : old; return old; }

static int __popc(unsigned x) { return __builtin_popcount(x); }
static int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static int __clz(int x) { return x == 0 ? 32 : __builtin_clz(x); }
static int __ffs(int x) { return __builtin_ffs(x); }
static int __ffsll(long long x) { return __builtin_ffsll(x); }
static unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return ((unsigned long long)high << 32 | low) << shift % 32 >> 32;
}
static unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (unsigned i = 0; i < 32; i++) reversed |= (x >> i & 1) << (31 - i);
    return reversed;
}
static unsigned __float_as_uint(float x) { unsigned bits; memcpy(&bits, &x, 4); return bits; }
static float __uint_as_float(unsigned bits) { float x; memcpy(&x, &bits, 4); return x; }
// Compiled without contraction, so that these are what they say.
static float __fadd_rn(float a, float b) { return a + b; }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static float __int2float_rn(int x) { return float(x); }
static int __float2int_rz(float x) {
    return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : int(x);
}

// The program is inserted here: it may name what C and C++ name, too.
namespace program {
EMULATED_PROGRAM
}

extern char __start_emulated_shared[] __attribute__((weak));
extern char __stop_emulated_shared[] __attribute__((weak));

namespace emulator {

using Kernel = void (*)(const uint64_t*);

template <class... A, size_t... I>
static void call(void (*kernel)(A...), const uint64_t* arguments, std::index_sequence<I...>) {
    kernel((A)arguments[I]...);
}
template <class... A> static void call(void (*kernel)(A...), const uint64_t* arguments) {
    call(kernel, arguments, std::index_sequence_for<A...>());
}
template <class... A> static size_t count(void (*)(A...)) { return sizeof...(A); }

struct Entry {
    Kernel call;
    size_t arguments;
};

static const std::map<std::string, Entry> kernels = {EMULATED_KERNELS};

static void launch(const Entry& kernel, unsigned blocks, unsigned block_threads, const uint64_t* arguments) {
    if (block_threads % LANES != 0 || block_threads > 1024) fail("a block of that many threads");
    threads = block_threads;
    while (fibres.size() < threads) {
        fibres.emplace_back();
        fibres.back().started = false;
        fibres.back().stack.resize(STACK);
    }
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    struct Both {
        Kernel call;
        const uint64_t* arguments;
    } both = {kernel.call, arguments};
    body = [](void* both) { ((Both*)both)->call(((Both*)both)->arguments); };
    body_argument = &both;
    std::vector<unsigned> order(blocks);
    for (unsigned i = 0; i < blocks; i++) order[i] = i;
    for (unsigned i = blocks; i > 1; i--) std::swap(order[i - 1], order[next() % i]);
    for (unsigned block : order) {
        blockIdx = {block, 0, 0};
        memset(__start_emulated_shared, 0xa5, __stop_emulated_shared - __start_emulated_shared);
        run_block();
    }
}

struct Buffer {
    char* pages;
    size_t mapped, bytes;
    // So that its end, up to 16 bytes, is the end of what may be touched.
    char* at() const { return pages + mapped - (bytes + 15) / 16 * 16; }
};

static void read(void* to, size_t bytes) {
    if (fread(to, 1, bytes, stdin) != bytes) exit(0);
}
static uint64_t number() {
    uint64_t value;
    read(&value, 8);
    return value;
}

}  // namespace emulator

// Requests on the standard input, all numbers of 8 bytes: a seed; how many buffers, and of each its
// bytes and contents; how many launches, and of each the length of its name, the name, blocks,
// threads, how many arguments, and of each a kind (0 a number, 1 + b an address in buffer b) and a
// value. A launch of `copy/bytes` (to, from, bytes) is a copy. The answer is the contents of all buffers.
int main() {
    using namespace emulator;
    long page = sysconf(_SC_PAGESIZE);
    for (;;) {
        state = number();
        std::vector<Buffer> buffers(number());
        for (Buffer& buffer : buffers) {
            buffer.bytes = number();
            buffer.mapped = (buffer.bytes + 15 + page) / page * page;
            buffer.pages = (char*)mmap(nullptr, buffer.mapped + page, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (buffer.pages == MAP_FAILED) fail("no memory");
            mprotect(buffer.pages + buffer.mapped, page, PROT_NONE);
            memset(buffer.pages, 0x5a, buffer.mapped);
            read(buffer.at(), buffer.bytes);
        }
        for (uint64_t launches = number(); launches > 0; launches--) {
            std::string name(number(), ' ');
            read(&name[0], name.size());
            unsigned blocks = number(), block_threads = number();
            std::vector<uint64_t> arguments(number());
            for (uint64_t& argument : arguments) {
                uint64_t kind = number(), value = number();
                argument = kind == 0 ? value : (uint64_t)buffers.at(kind - 1).at() + value;
            }
            if (name == "copy/bytes") {
                memmove((void*)arguments[0], (const void*)arguments[1], arguments[2]);
                continue;
            }
            auto kernel = kernels.find(name);
            if (kernel == kernels.end()) fail(("no kernel " + name).c_str());
            if (kernel->second.arguments != arguments.size()) fail(("arguments of " + name).c_str());
            launch(kernel->second, blocks, block_threads, arguments.data());
        }
        for (Buffer& buffer : buffers) {
            for (char* at = buffer.at() + buffer.bytes; at < buffer.pages + buffer.mapped; at++) {
                if (*at != 0x5a) fail("written behind the end of a buffer");
            }
            for (char* at = buffer.pages; at < buffer.at(); at++) {
                if (*at != 0x5a) fail("written before a buffer");
            }
            fwrite(buffer.at(), 1, buffer.bytes, stdout);
            munmap(buffer.pages, buffer.mapped + page);
        }
        fflush(stdout);
    }
}
