// What all kernels share. No header is included: NVRTC comes without any, and the same text is
// compiled for a CPU by the tests. Constants stand before this, generated from the codecs' own.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;

#define DEVICE static __device__ __forceinline__
#define KERNEL extern "C" __global__ void
// A kernel that one block of 1024 threads runs: the compiler must leave each enough registers.
#define KERNEL_OF_ONE_BLOCK extern "C" __global__ void __launch_bounds__(1024)
// A kernel of blocks of 128 threads, of which as many are to be on a multiprocessor as are launched for it.
#define KERNEL_OF_128 extern "C" __global__ void __launch_bounds__(128, 8)

constexpr u32 WARP = 32;
constexpr u32 ALL_LANES = 0xffffffffu;

DEVICE u32 lane() { return threadIdx.x % WARP; }
DEVICE u32 warp() { return threadIdx.x / WARP; }
DEVICE u32 warps() { return blockDim.x / WARP; }
DEVICE u32 lanes_below() { return (1u << lane()) - 1; }

template <class T> DEVICE T smaller(T a, T b) { return a < b ? a : b; }
template <class T> DEVICE T larger(T a, T b) { return a < b ? b : a; }
template <class T> DEVICE T next_multiple(T value, T of) { return (value + of - 1) / of * of; }

// Says that what has this number (a block, a row, an element) cannot be taken. The least number
// stays, whatever the order of threads. `status` begins as all ones.
DEVICE void report(u64* status, u64 number) { atomicMin(status, number); }

// Sum over the lanes below, and of all in `total`.
template <class T> DEVICE T warp_scan(T value, T* total) {
    T sum = value;
    for (u32 distance = 1; distance < WARP; distance *= 2) {
        T below = __shfl_up_sync(ALL_LANES, sum, distance);
        if (lane() >= distance) sum += below;
    }
    *total = __shfl_sync(ALL_LANES, sum, WARP - 1);
    return sum - value;
}

// Sum over the threads below, and of all in `total`. `sums` is shared, one for each warp.
template <class T> DEVICE T block_scan(T value, T* sums, T* total) {
    T of_warp;
    T below = warp_scan(value, &of_warp);
    if (lane() == 0) sums[warp()] = of_warp;
    __syncthreads();
    T all = 0;
    for (u32 i = 0; i < warps(); i++) {
        if (i == warp()) below += all;
        all += sums[i];
    }
    __syncthreads();
    *total = all;
    return below;
}

// Copies by all threads of a block; by words where both lie at words.
DEVICE void copy_bytes(u8* to, const u8* from, u64 bytes) {
    u64 done = 0;
    if (((u64)to | (u64)from) % 4 == 0) {
        for (u64 i = threadIdx.x; i < bytes / 4; i += blockDim.x) {
            ((u32*)to)[i] = ((const u32*)from)[i];
        }
        done = bytes / 4 * 4;
    }
    for (u64 i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

// Ors the low `count` bits, at most 64, into a bit string of words, lowest bit first.
DEVICE void or_bits(u32* words, u64 position, u64 bits, u32 count) {
    if (count < 64) bits &= (1ull << count) - 1;
    u32 shift = position % 32;
    u64 low = bits << shift;
    u32 high = shift == 0 ? 0 : (u32)(bits >> (64 - shift));
    u32* place = words + position / 32;
    if ((u32)low) atomicOr(place, (u32)low);
    if ((u32)(low >> 32)) atomicOr(place + 1, (u32)(low >> 32));
    if (high) atomicOr(place + 2, high);
}

// Elements of the types that are numbered so; all are computed with as f32.

DEVICE float f32_of_f16(u16 half) {
    u32 sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    // Subnormal halves are small whole numbers of 2^-24.
    if (exponent == 0) {
        float value = __fmul_rn(__int2float_rn(fraction), __uint_as_float(0x33800000u));
        return __uint_as_float(sign | __float_as_uint(value));
    }
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

// To the nearest, ties to even.
DEVICE u16 f16_of_f32(float value) {
    u32 bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return sign | 0x7e00u | (bits >> 13 & 0x3ffu);
    if (bits >= 0x47800000u) return sign | 0x7c00u;
    // Subnormal: beside a half, the last bit of an f32 is 2^-24.
    if (bits < 0x38800000u) {
        u32 sum = __float_as_uint(__fadd_rn(__uint_as_float(bits), 0.5f));
        return sign | (sum - 0x3f000000u);
    }
    bits += 0xfffu + (bits >> 13 & 1);
    return sign | (bits - 0x38000000u) >> 13;
}

DEVICE float f32_of_bf16(u16 half) { return __uint_as_float((u32)half << 16); }

// To the nearest, ties to even.
DEVICE u16 bf16_of_f32(float value) {
    u32 bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}

DEVICE u32 width_of(u32 dtype) { return dtype == F32 ? 4 : 2; }

DEVICE float load_element(const void* elements, u64 index, u32 dtype) {
    if (dtype == F32) return ((const float*)elements)[index];
    u16 half = ((const u16*)elements)[index];
    return dtype == F16 ? f32_of_f16(half) : f32_of_bf16(half);
}

DEVICE void store_element(void* elements, u64 index, u32 dtype, float value) {
    if (dtype == F32) {
        ((float*)elements)[index] = value;
    } else {
        ((u16*)elements)[index] = dtype == F16 ? f16_of_f32(value) : bf16_of_f32(value);
    }
}

// What storing and loading makes of a value.
DEVICE float round_element(float value, u32 dtype) {
    if (dtype == F32) return value;
    return dtype == F16 ? f32_of_f16(f16_of_f32(value)) : f32_of_bf16(bf16_of_f32(value));
}
