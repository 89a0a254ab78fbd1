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

// Elements behind one another, which memory gives and takes at once.
template <class T, u32 N> struct alignas(N * sizeof(T)) Several {
    T of[N];
};

// Whether elements from each of these addresses on can be taken four at a time.
template <class... T> DEVICE bool lie_at_fours(const T*... from) {
    return ((((u64)from) % (4 * sizeof(T))) | ...) == 0;
}

// Calls a function with one element of each, for all of them.
template <u32 N, class F, class... T> DEVICE void with_several(F& function, Several<T, N>... from) {
    for (u32 k = 0; k < N; k++) function(from.of[k]...);
}

// The same of which the results are kept.
template <class To, u32 N, class F, class... T> DEVICE Several<To, N> of_several(
    F& function, Several<T, N>... from
) {
    Several<To, N> to;
    for (u32 k = 0; k < N; k++) to.of[k] = function(from.of[k]...);
    return to;
}

// A function element by element, by all threads of the grid. `to` may lie over one of the others.
template <class To, class F, class... T> DEVICE void map(u64 count, To* to, F function, const T*... from) {
    u64 fours = lie_at_fours(to, from...) ? count / 4 : 0;
    EACH(i, fours) {
        ((Several<To, 4>*)to)[i] = of_several<To, 4>(function, ((const Several<T, 4>*)from)[i]...);
    }
    EACH(i, count - 4 * fours) to[4 * fours + i] = function(from[4 * fours + i]...);
}

// A place in rows of so many columns that goes on by steps: a division at the start, and then sums.
struct Walk {
    u64 row, column, rows, columns, width;

    __device__ __forceinline__ Walk(u64 first, u64 step, u64 width)
        : row(first / width), column(first % width), rows(step / width), columns(step % width), width(width) {}

    __device__ __forceinline__ void next() {
        row += rows;
        column += columns;
        if (column >= width) {
            column -= width;
            row++;
        }
    }
};

// The walk of a thread where the grid is the stride.
DEVICE Walk grid_walk(u64 width) {
    return Walk((u64)blockIdx.x * blockDim.x + threadIdx.x, (u64)gridDim.x * blockDim.x, width);
}

// The sum over a warp, in all of its lanes.
DEVICE float warp_sum(float value) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = __fadd_rn(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}

// The largest value over a warp, in all of its lanes; NaN counts as nothing.
DEVICE float warp_max(float value) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}

// The sum over a block of threads, in all of them. `parts` is shared, one for each warp.
DEVICE float block_sum(float value, float* parts) {
    value = warp_sum(value);
    if (lane() == 0) parts[warp()] = value;
    __syncthreads();
    float total = 0;
    for (u32 i = 0; i < warps(); i++) total = __fadd_rn(total, parts[i]);
    __syncthreads();
    return total;
}

// The largest value over a block of threads, in all of them; NaN counts as nothing.
DEVICE float block_max(float value, float* parts) {
    value = warp_max(value);
    if (lane() == 0) parts[warp()] = value;
    __syncthreads();
    float largest = parts[0];
    for (u32 i = 1; i < warps(); i++) largest = fmaxf(largest, parts[i]);
    __syncthreads();
    return largest;
}

// For each lane the sum over the warps of a block, in all of them. `sums` is shared.
DEVICE float sum_of_warps(float value, float (*sums)[WARP]) {
    sums[warp()][lane()] = value;
    __syncthreads();
    float total = 0;
    for (u32 i = 0; i < warps(); i++) total = __fadd_rn(total, sums[i][lane()]);
    __syncthreads();
    return total;
}

// The threads that share a row: a warp where rows are short, and all of a block where they are long.
struct Team {
    bool is_warp;
    float* parts;

    __device__ __forceinline__ Team(u64 width, float* parts) : is_warp(width <= 1024), parts(parts) {}

    __device__ __forceinline__ u64 row() const {
        return is_warp ? (u64)blockIdx.x * warps() + warp() : blockIdx.x;
    }
    __device__ __forceinline__ u64 rows() const { return is_warp ? (u64)gridDim.x * warps() : gridDim.x; }
    __device__ __forceinline__ u32 thread() const { return is_warp ? lane() : threadIdx.x; }
    __device__ __forceinline__ u32 threads() const { return is_warp ? WARP : blockDim.x; }
    __device__ __forceinline__ float sum(float value) const {
        return is_warp ? warp_sum(value) : block_sum(value, parts);
    }
    __device__ __forceinline__ float max(float value) const {
        return is_warp ? warp_max(value) : block_max(value, parts);
    }
};

// The rows of a team, and its thread's elements of one.
#define EACH_OF_TEAM(team, row, count) for (u64 row = (team).row(); row < (count); row += (team).rows())
#define EACH_IN_ROW(team, index, width)                                                            \
    for (u64 index = (team).thread(); index < (width); index += (team).threads())

// The values of a channel, planes that lie `channels` apart, in parts of nearly equal size: a block of
// threads each. How they are cut follows from the shape alone, and so does the order of sums.
struct Channels {
    u64 images, channels, plane, parts;

    __device__ __forceinline__ u64 count() const { return images * plane; }
    __device__ __forceinline__ bool is_of_fours() const { return plane % 4 == 0; }
    // The first value of a part.
    __device__ __forceinline__ u64 begin(u64 part) const {
        return is_of_fours() ? count() / 4 * part / parts * 4 : count() * part / parts;
    }

    // Calls a function with each place of a part that is this thread's, in `N` values.
    template <u32 N, class F> __device__ __forceinline__ void each(u64 row, F function) const {
        u64 channel = row / parts, part = row % parts;
        u64 first = begin(part) / N + threadIdx.x, end = begin(part + 1) / N;
        Walk at(first, blockDim.x, plane / N);
        for (u64 i = first; i < end; i += blockDim.x, at.next()) {
            function((at.row * channels + channel) * (plane / N) + at.column);
        }
    }

    // Calls a function with the values of a part.
    template <class F, class... T> __device__ __forceinline__ void read(u64 row, F function, const T*... from) const {
        if (is_of_fours() && lie_at_fours(from...)) {
            each<4>(row, [&](u64 at) { with_several<4>(function, ((const Several<T, 4>*)from)[at]...); });
        } else {
            each<1>(row, [&](u64 at) { function(from[at]...); });
        }
    }

    // The same of which the results are kept.
    template <class To, class F, class... T> __device__ __forceinline__ void write(
        u64 row, To* to, F function, const T*... from
    ) const {
        if (is_of_fours() && lie_at_fours(to, from...)) {
            each<4>(row, [&](u64 at) {
                ((Several<To, 4>*)to)[at] = of_several<To, 4>(function, ((const Several<T, 4>*)from)[at]...);
            });
        } else {
            each<1>(row, [&](u64 at) { to[at] = function(from[at]...); });
        }
    }
};

#define CHANNELS_ARGUMENTS u64 images, u64 channels, u64 plane, u64 parts
#define CHANNELS Channels { images, channels, plane, parts }

DEVICE float infinity() { return __uint_as_float(0x7f800000u); }

// What normalisations add to a variance.
constexpr float EPSILON = 1e-5f;
