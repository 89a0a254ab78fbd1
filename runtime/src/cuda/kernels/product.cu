// Products of matrices, convolutions among them: 64 x 64 outputs a block of 256 threads, of which each
// computes 4 x 4, so that what it takes to find an element is shared by many products. Operands pass
// through shared memory and say where an element lies, so that no matrix has to be laid out first.
// Sums go along the inner dimension, in parts of 1024 terms.

constexpr u32 TILE = 64;
constexpr u32 INNER = 16;
constexpr u32 TILES_OF_PART = 64;
constexpr u32 SIDE = 16;
constexpr u32 EACH_SIDE = TILE / SIDE;

struct Tiles {
    float left[INNER][TILE + 1];
    float right[INNER][TILE + 1];
};

// `operands` has matrices, rows, columns, inner, and the functions left(matrix, row, k),
// right(matrix, k, column) and store(matrix, row, column, value).
template <class Operands> DEVICE void multiply(const Operands& operands, Tiles* tiles) {
    u64 down = (operands.rows + TILE - 1) / TILE, across = (operands.columns + TILE - 1) / TILE;
    u32 x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    EACH_ROW(tile, operands.matrices * down * across) {
        u64 matrix = tile / (down * across);
        u64 top = tile / across % down * TILE, begin = tile % across * TILE;
        float total[EACH_SIDE][EACH_SIDE] = {}, part[EACH_SIDE][EACH_SIDE] = {};
        u32 of_part = 0;
        for (u64 first = 0; first < operands.inner; first += INNER) {
            for (u32 i = threadIdx.x; i < INNER * TILE; i += blockDim.x) {
                u64 row = top + i / INNER, k = first + i % INNER;
                bool inside = row < operands.rows && k < operands.inner;
                tiles->left[i % INNER][i / INNER] = inside ? operands.left(matrix, row, k) : 0.0f;
            }
            for (u32 i = threadIdx.x; i < INNER * TILE; i += blockDim.x) {
                u64 column = begin + i % TILE, k = first + i / TILE;
                bool inside = column < operands.columns && k < operands.inner;
                tiles->right[i / TILE][i % TILE] = inside ? operands.right(matrix, k, column) : 0.0f;
            }
            __syncthreads();
            for (u32 k = 0; k < INNER; k++) {
                float left[EACH_SIDE], right[EACH_SIDE];
                for (u32 i = 0; i < EACH_SIDE; i++) left[i] = tiles->left[k][y + SIDE * i];
                for (u32 j = 0; j < EACH_SIDE; j++) right[j] = tiles->right[k][x + SIDE * j];
                for (u32 i = 0; i < EACH_SIDE; i++) {
                    for (u32 j = 0; j < EACH_SIDE; j++) part[i][j] = __fmaf_rn(left[i], right[j], part[i][j]);
                }
            }
            __syncthreads();
            bool whole = ++of_part == TILES_OF_PART, last = first + INNER >= operands.inner;
            if (!whole && !last) continue;
            of_part = 0;
            for (u32 i = 0; i < EACH_SIDE; i++) {
                for (u32 j = 0; j < EACH_SIDE; j++) {
                    total[i][j] = __fadd_rn(total[i][j], part[i][j]);
                    part[i][j] = 0;
                }
            }
        }
        for (u32 i = 0; i < EACH_SIDE; i++) {
            for (u32 j = 0; j < EACH_SIDE; j++) {
                u64 row = top + y + SIDE * i, column = begin + x + SIDE * j;
                if (row < operands.rows && column < operands.columns) {
                    operands.store(matrix, row, column, total[i][j]);
                }
            }
        }
    }
}

// Where the elements of an operand lie: a matrix for each sample and head, and `divide` heads that
// share one. The inner dimension may be cut into parts of `split` elements, a distance apart.
struct Strided {
    const float* data;
    u64 start, sample, head, divide, side, inner, outer;

    __device__ __forceinline__ float at(u64 of_sample, u64 of_head, u64 i, u64 k, u64 split) const {
        u64 along = outer == 0 ? k * inner : k % split * inner + k / split * outer;
        return data[start + of_sample * sample + of_head / divide * head + i * side + along];
    }
};

struct StridedProduct {
    u64 matrices, rows, columns, inner;
    Strided a, b;
    float* y;
    const float* bias;
    u64 heads, split, start, sample, head, row_stride, column_stride;
    float scale, masked;
    bool causal, accumulate;

    __device__ __forceinline__ float left(u64 matrix, u64 row, u64 k) const {
        return a.at(matrix / heads, matrix % heads, row, k, split);
    }
    __device__ __forceinline__ float right(u64 matrix, u64 k, u64 column) const {
        return b.at(matrix / heads, matrix % heads, column, k, split);
    }
    __device__ __forceinline__ void store(u64 matrix, u64 row, u64 column, float value) const {
        float* place = y + start + matrix / heads * sample + matrix % heads * head
            + row * row_stride + column * column_stride;
        value = __fmul_rn(value, scale);
        if (bias != nullptr) value = __fadd_rn(value, bias[column]);
        if (accumulate) value = __fadd_rn(*place, value);
        // A query sees the keys up to its own, counted from the end, and always the first.
        u64 seen = row + 1 + columns > rows ? row + 1 + columns - rows : 0;
        if (causal && column >= larger(seen, (u64)1)) value = masked;
        *place = value;
    }
};

KERNEL product(
    const float* a, u64 a_start, u64 a_sample, u64 a_head, u64 a_divide, u64 a_row, u64 a_inner, u64 a_outer,
    const float* b, u64 b_start, u64 b_sample, u64 b_head, u64 b_divide, u64 b_column, u64 b_inner, u64 b_outer,
    float* y, u64 y_start, u64 y_sample, u64 y_head, u64 y_row, u64 y_column, const float* bias,
    u64 samples, u64 heads, u64 rows, u64 columns, u64 inner, u64 split, u64 scale, u64 causal, u64 masked,
    u64 accumulate
) {
    __shared__ Tiles tiles;
    StridedProduct product = {
        samples * heads, rows, columns, inner,
        {a, a_start, a_sample, a_head, a_divide, a_row, a_inner, a_outer},
        {b, b_start, b_sample, b_head, b_divide, b_column, b_inner, b_outer},
        y, bias, heads, split, y_start, y_sample, y_head, y_row, y_column,
        f32_of(scale), f32_of(masked), causal != 0, accumulate != 0};
    multiply(product, &tiles);
}

// Shapes of a convolution: images, channels, groups, and the window along three axes. Rows, columns
// and the inner dimension fit 32 bits, in which divisions are several times as quick; where an element
// lies may need 64.
constexpr u32 NOWHERE = ~0u;

struct Slide {
    u32 images, in_channels, out_channels, groups;
    u32 input[3], output[3], kernel[3], step[3], padding[3];

    __device__ __forceinline__ u32 plane() const { return input[0] * input[1] * input[2]; }
    __device__ __forceinline__ u32 positions() const { return output[0] * output[1] * output[2]; }
    __device__ __forceinline__ u32 volume() const { return kernel[0] * kernel[1] * kernel[2]; }

    // The cell of a plane that the window's cell lies over at a position; all ones in the padding.
    __device__ __forceinline__ u32 under(u32 position, u32 cell) const {
        u32 at = 0, size = 1;
        for (u32 axis = 3; axis-- > 0;) {
            u32 along = position % output[axis] * step[axis] + cell % kernel[axis];
            if (along < padding[axis] || along - padding[axis] >= input[axis]) return NOWHERE;
            at += (along - padding[axis]) * size;
            size *= input[axis];
            position /= output[axis];
            cell /= kernel[axis];
        }
        return at;
    }

    // The position at which the window's cell lies over a cell of a plane; all ones if at none.
    __device__ __forceinline__ u32 over(u32 place, u32 cell) const {
        u32 at = 0, size = 1;
        for (u32 axis = 3; axis-- > 0;) {
            u32 along = place % input[axis] + padding[axis];
            u32 offset = cell % kernel[axis];
            if (along < offset || (along - offset) % step[axis] != 0) return NOWHERE;
            u32 position = (along - offset) / step[axis];
            if (position >= output[axis]) return NOWHERE;
            at += position * size;
            size *= output[axis];
            place /= input[axis];
            cell /= kernel[axis];
        }
        return at;
    }
};

struct ConvolutionForward {
    u64 matrices, rows, columns, inner;
    Slide slide;
    const float *x, *w, *bias;
    float* y;

    __device__ __forceinline__ float left(u64 group, u32 row, u32 k) const {
        return w[(group * rows + row) * inner + k];
    }
    __device__ __forceinline__ float right(u64 group, u32 k, u32 column) const {
        u32 positions = slide.positions(), volume = slide.volume();
        u32 at = slide.under(column % positions, k % volume);
        if (at == NOWHERE) return 0.0f;
        u64 channel = group * (slide.in_channels / slide.groups) + k / volume;
        return x[((u64)(column / positions) * slide.in_channels + channel) * slide.plane() + at];
    }
    __device__ __forceinline__ void store(u64 group, u32 row, u32 column, float value) const {
        u32 positions = slide.positions();
        u64 channel = group * rows + row;
        if (bias != nullptr) value = __fadd_rn(value, bias[channel]);
        y[((u64)(column / positions) * slide.out_channels + channel) * positions + column % positions] = value;
    }
};

struct ConvolutionWeights {
    u64 matrices, rows, columns, inner;
    Slide slide;
    const float *x, *dy;
    float* dw;

    __device__ __forceinline__ float left(u64 group, u32 row, u32 k) const {
        u32 positions = slide.positions();
        return dy[((u64)(k / positions) * slide.out_channels + group * rows + row) * positions + k % positions];
    }
    __device__ __forceinline__ float right(u64 group, u32 k, u32 column) const {
        u32 positions = slide.positions(), volume = slide.volume();
        u32 at = slide.under(k % positions, column % volume);
        if (at == NOWHERE) return 0.0f;
        u64 channel = group * (slide.in_channels / slide.groups) + column / volume;
        return x[((u64)(k / positions) * slide.in_channels + channel) * slide.plane() + at];
    }
    __device__ __forceinline__ void store(u64 group, u32 row, u32 column, float value) const {
        dw[(group * rows + row) * columns + column] = value;
    }
};

struct ConvolutionInput {
    u64 matrices, rows, columns, inner;
    Slide slide;
    const float *w, *dy;
    float* dx;

    __device__ __forceinline__ float left(u64 group, u32 row, u32 k) const {
        u32 volume = slide.volume();
        u64 channel = group * (slide.out_channels / slide.groups) + k / volume;
        return w[(channel * rows + row) * volume + k % volume];
    }
    __device__ __forceinline__ float right(u64 group, u32 k, u32 column) const {
        u32 volume = slide.volume(), plane = slide.plane();
        u32 at = slide.over(column % plane, k % volume);
        if (at == NOWHERE) return 0.0f;
        u64 channel = group * (slide.out_channels / slide.groups) + k / volume;
        return dy[((u64)(column / plane) * slide.out_channels + channel) * slide.positions() + at];
    }
    __device__ __forceinline__ void store(u64 group, u32 row, u32 column, float value) const {
        u32 plane = slide.plane();
        dx[((u64)(column / plane) * slide.in_channels + group * rows + row) * plane + column % plane] = value;
    }
};

#define SLIDE_ARGUMENTS                                                                            \
    u64 images, u64 in_channels, u64 out_channels, u64 groups, u64 i0, u64 i1, u64 i2, u64 o0, u64 o1, \
        u64 o2, u64 k0, u64 k1, u64 k2, u64 s0, u64 s1, u64 s2, u64 p0, u64 p1, u64 p2
#define SLIDE                                                                                      \
    Slide { (u32)images, (u32)in_channels, (u32)out_channels, (u32)groups,                          \
        {(u32)i0, (u32)i1, (u32)i2}, {(u32)o0, (u32)o1, (u32)o2}, {(u32)k0, (u32)k1, (u32)k2},       \
        {(u32)s0, (u32)s1, (u32)s2}, {(u32)p0, (u32)p1, (u32)p2} }

KERNEL convolution(SLIDE_ARGUMENTS, const float* x, const float* w, const float* bias, float* y) {
    __shared__ Tiles tiles;
    Slide slide = SLIDE;
    ConvolutionForward operands = {groups, out_channels / groups, images * slide.positions(),
        in_channels / groups * slide.volume(), slide, x, w, bias, y};
    multiply(operands, &tiles);
}

KERNEL convolution_weights(SLIDE_ARGUMENTS, const float* x, const float* dy, float* dw) {
    __shared__ Tiles tiles;
    Slide slide = SLIDE;
    ConvolutionWeights operands = {groups, out_channels / groups, in_channels / groups * slide.volume(),
        images * slide.positions(), slide, x, dy, dw};
    multiply(operands, &tiles);
}

KERNEL convolution_input(SLIDE_ARGUMENTS, const float* w, const float* dy, float* dx) {
    __shared__ Tiles tiles;
    Slide slide = SLIDE;
    ConvolutionInput operands = {groups, in_channels / groups, images * slide.plane(),
        out_channels / groups * slide.volume(), slide, w, dy, dx};
    multiply(operands, &tiles);
}
