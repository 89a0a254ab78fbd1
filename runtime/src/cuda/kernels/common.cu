// What kernels of layers share. All values are f32, and every sum has one order, so that running an
// op again gives the same bits. What the host's layers sum in 64 bits is summed with compensation.

// The elements of a thread: the grid is the stride.
#define EACH(index, count)                                                                         \
    for (u64 index = (u64)blockIdx.x * blockDim.x + threadIdx.x, stride_ = (u64)gridDim.x * blockDim.x; \
         index < (count); index += stride_)

// The rows of a block of threads.
#define EACH_ROW(row, count) for (u64 row = blockIdx.x; row < (count); row += gridDim.x)

DEVICE float f32_of(u64 bits) { return __uint_as_float((u32)bits); }

// A sum that keeps what rounding takes away (Kahan).
struct Sum {
    float sum = 0, lost = 0;

    __device__ __forceinline__ void add(float value) {
        float corrected = __fsub_rn(value, lost);
        float next = __fadd_rn(sum, corrected);
        lost = __fsub_rn(__fsub_rn(next, sum), corrected);
        sum = next;
    }
};

// The sum over a block of threads, in all of them. `parts` is shared, one for each warp.
DEVICE float block_sum(float value, float* parts) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = __fadd_rn(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    if (lane() == 0) parts[warp()] = value;
    __syncthreads();
    float total = 0;
    for (u32 i = 0; i < warps(); i++) total = __fadd_rn(total, parts[i]);
    __syncthreads();
    return total;
}

// The largest value over a block of threads, in all of them; NaN counts as nothing.
DEVICE float block_max(float value, float* parts) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    if (lane() == 0) parts[warp()] = value;
    __syncthreads();
    float largest = parts[0];
    for (u32 i = 1; i < warps(); i++) largest = fmaxf(largest, parts[i]);
    __syncthreads();
    return largest;
}

DEVICE float infinity() { return __uint_as_float(0x7f800000u); }

// What normalisations add to a variance.
constexpr float EPSILON = 1e-5f;
