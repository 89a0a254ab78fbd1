// An nvCOMP that is none, behind the driver that is none. It wants everything that the headers of 5.0 to 6.0
// document: options with zeros where they are reserved, memory aligned and as large as it said, chunks that
// are no larger than was announced and whole elements, sizes in the device's memory; it reads and writes when
// the stream gets there, and its memory to work in is overwritten. Its small forms have runs of zeros
// counted, whatever the format.
//
// What the environment says: TIDEGATE_NVCOMP_VERSION (default 6000), TIDEGATE_NVCOMP_WRONG (default 0): 1 to
// bring back another byte, 2 to report a chunk as not done.

#include <dlfcn.h>

namespace stand_in {

struct Options {
    int first, second;
    char rest[56];
};
static_assert(sizeof(Options) == 64, "as in the headers");
struct Alignments {
    size_t input, output, temp;
};
struct Properties {
    uint32_t version, cudart;
};
// More than the real ones want.
static const Alignments WANTED = {16, 64, 128};

enum { INVALID = 10, CANNOT_DECOMPRESS = 12, UNALIGNED = 17, TOO_LARGE = 18 };

static uint64_t nvcomp_version() { return setting("TIDEGATE_NVCOMP_VERSION", 6000); }

static bool is_zero(const char* bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i]) return false;
    }
    return true;
}
// Bytes of an element; 0 for what there is not.
static size_t element(bool is_bitcomp, const Options& options) {
    if (options.first != 0 || !is_zero(options.rest, sizeof options.rest)) return 0;
    if (!is_bitcomp) return options.second == 0 ? 1 : 0;
    return options.second >= 0 && options.second < 8 ? 1 << options.second / 2 : 0;
}
static bool is_default(const Options& options) { return options.first == 0 && options.second == 0
    && is_zero(options.rest, sizeof options.rest); }

static size_t most(size_t chunk) { return 2 * chunk + 17; }
static size_t temp_of(bool compresses, size_t chunks) { return compresses ? 1000 * chunks + 4 : 0; }

static int asked_alignments(bool valid, Alignments* to) { return valid ? (*to = WANTED, 0) : INVALID; }
static int asked_temp(bool compresses, bool valid, size_t chunks, size_t chunk, size_t all, size_t* to) {
    if (!valid || chunks == 0 || all > chunks * chunk) return INVALID;
    return chunk > 1 << 24 ? TOO_LARGE : (*to = temp_of(compresses, chunks), 0);
}

// Whether the memory lies in one allocation of the driver's, which is another library.
static bool is_allocated(const void* at, size_t bytes) {
    using Range = int (*)(uint64_t*, size_t*, uint64_t);
    static Range range = (Range)dlsym(dlopen("libcuda.so", RTLD_NOW), "cuMemGetAddressRange_v2");
    uint64_t begin;
    size_t length;
    return range && range(&begin, &length, (uint64_t)at) == 0 && (uint64_t)at + bytes <= begin + length;
}
static bool fits(const void* at, size_t bytes, size_t alignment) {
    return (uint64_t)at % alignment == 0 && is_allocated(at, bytes);
}
static bool is_room(const void* temp, size_t bytes, size_t needed) {
    if (bytes < needed || (bytes > 0 && !fits(temp, bytes, WANTED.temp))) return false;
    memset((void*)temp, 0xa5, needed);
    return true;
}

// Runs of up to 255 zeros as 0 and their number, anything else as itself.
static size_t squeeze(const unsigned char* from, size_t bytes, unsigned char* to) {
    size_t length = 0;
    for (size_t i = 0; i < bytes;) {
        size_t run = 0;
        while (i + run < bytes && run < 255 && from[i + run] == 0) run++;
        to[length++] = from[i];
        if (run) to[length++] = run;
        i += run ? run : 1;
    }
    return length;
}
static bool expand(const unsigned char* from, size_t bytes, unsigned char* to, size_t room, size_t* length) {
    size_t at = 0;
    for (size_t i = 0; i < bytes; i++) {
        size_t count = from[i] || i + 1 == bytes ? 1 : from[i + 1];
        if (at + count > room) return false;
        memset(to + at, from[i], count);
        at += count;
        if (!from[i]) i++;
    }
    return *length = at, true;
}

static int compress(size_t wide, const void* const* from, const size_t* bytes, size_t largest, size_t chunks,
    void* temp, size_t temp_bytes, void* const* to, size_t* made, int* statuses, void* stream) {
    if (wide == 0 || !stream || chunks == 0) return INVALID;
    if (largest > 1 << 24) return TOO_LARGE;
    return later(stream, [=] {
        bool has_room = is_room(temp, temp_bytes, temp_of(true, chunks));
        for (size_t i = 0; i < chunks; i++) {
            bool good = has_room && bytes[i] <= largest && bytes[i] % wide == 0
                && fits(from[i], bytes[i], WANTED.input) && fits(to[i], most(largest), WANTED.output);
            statuses[i] = good ? 0 : INVALID;
            if (good) made[i] = squeeze((const unsigned char*)from[i], bytes[i], (unsigned char*)to[i]);
        }
    });
}
static int decompress(bool valid, const void* const* from, const size_t* bytes, const size_t* room, size_t* made,
    size_t chunks, void* temp, size_t temp_bytes, void* const* to, int* statuses, void* stream) {
    if (!valid || !stream || chunks == 0) return INVALID;
    return later(stream, [=] {
        bool has_room = is_room(temp, temp_bytes, temp_of(false, chunks));
        uint64_t wrong = setting("TIDEGATE_NVCOMP_WRONG", 0);
        for (size_t i = 0; i < chunks; i++) {
            bool good = has_room && fits(from[i], bytes[i], WANTED.output) && fits(to[i], room[i], WANTED.input)
                && expand((const unsigned char*)from[i], bytes[i], (unsigned char*)to[i], room[i], made + i);
            statuses[i] = good && wrong != 2 ? 0 : CANNOT_DECOMPRESS;
            if (wrong == 1) ((char*)to[i])[room[i] / 2] ^= 4;
        }
    });
}

}  // namespace stand_in

API nvcompGetProperties(Properties* to) { return *to = Properties{(uint32_t)nvcomp_version(), 12090}, 0; }

// The functions of 5.x are there in 5.x alone, and those of 6 there; here whoever calls the wrong ones is
// refused.
#define FORMAT(name, is_bitcomp)                                                                              \
    API nvcompBatched##name##CompressGetRequiredAlignments(Options options, Alignments* to) {                 \
        return asked_alignments(element(is_bitcomp, options) != 0, to);                                       \
    }                                                                                                         \
    API nvcompBatched##name##DecompressGetRequiredAlignments(Options options, Alignments* to) {               \
        return asked_alignments(is_default(options), to);                                                     \
    }                                                                                                         \
    API nvcompBatched##name##CompressGetMaxOutputChunkSize(size_t chunk, Options options, size_t* to) {       \
        return element(is_bitcomp, options) ? (*to = most(chunk), 0) : INVALID;                               \
    }                                                                                                         \
    API nvcompBatched##name##CompressGetTempSizeAsync(                                                        \
        size_t chunks, size_t chunk, Options options, size_t* to, size_t all) {                               \
        bool valid = nvcomp_version() < 6000 && element(is_bitcomp, options);                                 \
        return asked_temp(true, valid, chunks, chunk, all, to);                                               \
    }                                                                                                         \
    API nvcompBatched##name##DecompressGetTempSizeAsync(                                                      \
        size_t chunks, size_t chunk, Options options, size_t* to, size_t all) {                               \
        return asked_temp(false, nvcomp_version() < 6000 && is_default(options), chunks, chunk, all, to);     \
    }                                                                                                         \
    API nvcompBatched##name##CompressGetTempSize(                                                             \
        size_t chunks, size_t chunk, Options options, size_t* to, size_t all, void* stream) {                 \
        bool valid = nvcomp_version() >= 6000 && element(is_bitcomp, options) && stream;                      \
        return asked_temp(true, valid, chunks, chunk, all, to);                                               \
    }                                                                                                         \
    API nvcompBatched##name##DecompressGetTempSize(                                                           \
        size_t chunks, size_t chunk, Options options, size_t* to, size_t all, void* stream) {                 \
        bool valid = nvcomp_version() >= 6000 && is_default(options) && stream;                               \
        return asked_temp(false, valid, chunks, chunk, all, to);                                              \
    }                                                                                                         \
    API nvcompBatched##name##CompressAsync(const void* const* from, const size_t* bytes, size_t largest,      \
        size_t chunks, void* temp, size_t temp_bytes, void* const* to, size_t* made, Options options,         \
        int* statuses, void* stream) {                                                                        \
        size_t wide = element(is_bitcomp, options);                                                           \
        return compress(wide, from, bytes, largest, chunks, temp, temp_bytes, to, made, statuses, stream);    \
    }                                                                                                         \
    API nvcompBatched##name##DecompressAsync(const void* const* from, const size_t* bytes,                    \
        const size_t* room, size_t* made, size_t chunks, void* temp, size_t temp_bytes, void* const* to,      \
        Options options, int* statuses, void* stream) {                                                       \
        bool valid = is_default(options);                                                                     \
        return decompress(                                                                                    \
            valid, from, bytes, room, made, chunks, temp, temp_bytes, to, statuses, stream);                  \
    }
FORMAT(LZ4, false)
FORMAT(ANS, false)
FORMAT(Bitcomp, true)
