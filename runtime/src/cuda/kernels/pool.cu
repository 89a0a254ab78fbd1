// Pooling and up-sampling: a thread an output, backward a thread an input, which sums over the windows that it lies
// under. Places in a plane fit 32 bits, in which divisions are several times as quick.

struct Range {
    u32 begin, end;
};

// Along each axis: extents of input and output; the window, or parts of nearly equal size.
struct Pool {
    u32 input[3], output[3], kernel[3], step[3], padding[3], parts;

    __device__ __forceinline__ u32 plane() const { return input[0] * input[1] * input[2]; }
    __device__ __forceinline__ u32 positions() const { return output[0] * output[1] * output[2]; }

    // The cells under a position.
    __device__ __forceinline__ Range under(u32 axis, u32 position) const {
        if (parts) return shares(input[axis], output[axis], position);
        u32 first = position * step[axis], last = first + kernel[axis];
        return Range{first > padding[axis] ? first - padding[axis] : 0,
            smaller(last > padding[axis] ? last - padding[axis] : 0, input[axis])};
    }

    // The positions over a cell.
    __device__ __forceinline__ Range over(u32 axis, u32 cell) const {
        if (parts) return shares(output[axis], input[axis], cell);
        u32 reach = cell + padding[axis];
        u32 first = reach >= kernel[axis] ? (reach - kernel[axis]) / step[axis] + 1 : 0;
        return Range{first, smaller(reach / step[axis] + 1, output[axis])};
    }

    // Of the first extent what the nth of so many parts touches.
    __device__ __forceinline__ Range shares(u64 extent, u64 count, u64 n) const {
        return Range{(u32)(n * extent / count), (u32)(((n + 1) * extent + count - 1) / count)};
    }
};

#define POOL_ARGUMENTS                                                                             \
    u64 planes, u64 i0, u64 i1, u64 i2, u64 o0, u64 o1, u64 o2, u64 k0, u64 k1, u64 k2, u64 s0, u64 s1, \
        u64 s2, u64 p0, u64 p1, u64 p2, u64 parts
#define POOL                                                                                       \
    Pool { {(u32)i0, (u32)i1, (u32)i2}, {(u32)o0, (u32)o1, (u32)o2}, {(u32)k0, (u32)k1, (u32)k2},     \
        {(u32)s0, (u32)s1, (u32)s2}, {(u32)p0, (u32)p1, (u32)p2}, (u32)parts }

// Cells under a position, and positions over a cell. An axis of one costs nothing.
#define RANGES(pool, function, index, extents)                                                     \
    u32 line_ = (index) / (extents)[2], depth_ = (extents)[0] == 1 ? 0 : line_ / (extents)[1];       \
    Range depths = (pool).function(0, depth_);                                                      \
    Range lines = (pool).function(1, line_ - depth_ * (extents)[1]);                                \
    Range cells = (pool).function(2, (index) - line_ * (extents)[2])

KERNEL max_pool(POOL_ARGUMENTS, const Element* x, Element* y, float* positions) {
    Pool pool = POOL;
    for (Walk at = grid_walk(pool.positions()); at.row < planes; at.next()) {
        const Element* plane = x + at.row * pool.plane();
        u32 position = at.column;
        u64 i = at.row * pool.positions() + position;
        RANGES(pool, under, position, pool.output);
        u32 best = (depths.begin * pool.input[1] + lines.begin) * pool.input[2] + cells.begin;
        float largest = plane[best];
        for (u32 depth = depths.begin; depth < depths.end; depth++) {
            for (u32 line = lines.begin; line < lines.end; line++) {
                for (u32 cell = cells.begin; cell < cells.end; cell++) {
                    u32 here = (depth * pool.input[1] + line) * pool.input[2] + cell;
                    float value = plane[here];
                    if (value > largest || value != value) {
                        largest = value;
                        best = here;
                    }
                }
            }
        }
        y[i] = largest;
        positions[i] = __uint_as_float(best);
    }
}

KERNEL max_pool_backward(POOL_ARGUMENTS, const float* positions, const Element* dy, Element* dx) {
    Pool pool = POOL;
    for (Walk at = grid_walk(pool.plane()); at.row < planes; at.next()) {
        u64 first = at.row * pool.positions();
        u32 place = at.column;
        RANGES(pool, over, place, pool.input);
        float sum = 0;
        for (u32 depth = depths.begin; depth < depths.end; depth++) {
            for (u32 line = lines.begin; line < lines.end; line++) {
                for (u32 cell = cells.begin; cell < cells.end; cell++) {
                    u64 under = first + (depth * pool.output[1] + line) * pool.output[2] + cell;
                    if (__float_as_uint(positions[under]) == place) sum += dy[under];
                }
            }
        }
        dx[at.row * pool.plane() + place] = sum;
    }
}

KERNEL average_pool(POOL_ARGUMENTS, const Element* x, Element* y) {
    Pool pool = POOL;
    for (Walk at = grid_walk(pool.positions()); at.row < planes; at.next()) {
        const Element* plane = x + at.row * pool.plane();
        u32 position = at.column;
        u64 i = at.row * pool.positions() + position;
        RANGES(pool, under, position, pool.output);
        Sum sum;
        u32 count = 0;
        for (u32 depth = depths.begin; depth < depths.end; depth++) {
            for (u32 line = lines.begin; line < lines.end; line++) {
                for (u32 cell = cells.begin; cell < cells.end; cell++, count++) {
                    sum.add(plane[(depth * pool.input[1] + line) * pool.input[2] + cell]);
                }
            }
        }
        y[i] = sum.sum / (float)count;
    }
}

KERNEL average_pool_backward(POOL_ARGUMENTS, const Element* dy, Element* dx) {
    Pool pool = POOL;
    for (Walk at = grid_walk(pool.plane()); at.row < planes; at.next()) {
        u64 first = at.row * pool.positions();
        u32 place = at.column;
        RANGES(pool, over, place, pool.input);
        float sum = 0;
        for (u32 depth = depths.begin; depth < depths.end; depth++) {
            for (u32 line = lines.begin; line < lines.end; line++) {
                for (u32 cell = cells.begin; cell < cells.end; cell++) {
                    Range z = pool.under(0, depth), y = pool.under(1, line), x = pool.under(2, cell);
                    u32 count = (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin);
                    sum += dy[first + (depth * pool.output[1] + line) * pool.output[2] + cell] / (float)count;
                }
            }
        }
        dx[at.row * pool.plane() + place] = sum;
    }
}

// Linear up-sampling by whole factors: along each axis extents of input and output.
struct Upsample {
    u32 input[3], output[3];

    __device__ __forceinline__ u32 plane() const { return input[0] * input[1] * input[2]; }
    __device__ __forceinline__ u32 positions() const { return output[0] * output[1] * output[2]; }

    // Of the two cells that a position lies between, the first, and the second one's weight.
    __device__ __forceinline__ u32 first(u32 axis, u32 position, float* weight) const {
        float factor = (float)(output[axis] / input[axis]);
        float at = fmaxf(((float)position + 0.5f) / factor - 0.5f, 0.0f);
        u32 low = smaller((u32)at, input[axis] - 1);
        *weight = at - (float)low;
        return low;
    }
    // The weight that a cell has in a position.
    __device__ __forceinline__ float weight(u32 axis, u32 position, u32 cell) const {
        float second, sum = 0.0f;
        u32 low = first(axis, position, &second);
        if (low == cell) sum += 1.0f - second;
        if (smaller(low + 1, input[axis] - 1) == cell) sum += second;
        return sum;
    }
    // Positions in which a cell can have a weight.
    __device__ __forceinline__ Range over(u32 axis, u32 cell) const {
        u32 factor = output[axis] / input[axis];
        return Range{cell == 0 ? 0 : (cell - 1) * factor, smaller((cell + 2) * factor, output[axis])};
    }
};

#define UPSAMPLE_ARGUMENTS u64 planes, u64 i0, u64 i1, u64 i2, u64 o0, u64 o1, u64 o2
#define UPSAMPLE Upsample { {(u32)i0, (u32)i1, (u32)i2}, {(u32)o0, (u32)o1, (u32)o2} }

KERNEL upsample(UPSAMPLE_ARGUMENTS, const Element* x, Element* y) {
    Upsample upsample = UPSAMPLE;
    for (Walk at = grid_walk(upsample.positions()); at.row < planes; at.next()) {
        const Element* plane = x + at.row * upsample.plane();
        u32 place = at.column, line = place / upsample.output[2], depth = line / upsample.output[1];
        u32 position[3] = {depth, line % upsample.output[1], place % upsample.output[2]}, low[3];
        float weight[3];
        for (u32 axis = 0; axis < 3; axis++) low[axis] = upsample.first(axis, position[axis], &weight[axis]);
        float sum = 0;
        for (u32 corner = 0; corner < 8; corner++) {
            float share = 1;
            u32 cell = 0;
            for (u32 axis = 0; axis < 3; axis++) {
                bool second = corner >> (2 - axis) & 1;
                share *= second ? weight[axis] : 1.0f - weight[axis];
                cell = cell * upsample.input[axis] + smaller(low[axis] + second, upsample.input[axis] - 1);
            }
            if (share > 0) sum += share * plane[cell];
        }
        y[at.row * upsample.positions() + place] = sum;
    }
}

KERNEL upsample_backward(UPSAMPLE_ARGUMENTS, const Element* dy, Element* dx) {
    Upsample upsample = UPSAMPLE;
    for (Walk at = grid_walk(upsample.plane()); at.row < planes; at.next()) {
        u64 first = at.row * upsample.positions();
        u32 place = at.column, line_of = place / upsample.input[2];
        u32 z = line_of / upsample.input[1], y = line_of % upsample.input[1], x = place % upsample.input[2];
        RANGES(upsample, over, place, upsample.input);
        Sum sum;
        for (u32 depth = depths.begin; depth < depths.end; depth++) {
            for (u32 line = lines.begin; line < lines.end; line++) {
                float share = upsample.weight(0, depth, z) * upsample.weight(1, line, y);
                for (u32 cell = cells.begin; share > 0 && cell < cells.end; cell++) {
                    float weight = share * upsample.weight(2, cell, x);
                    sum.add(__fmul_rn(weight, dy[first + (depth * upsample.output[1] + line) * upsample.output[2] + cell]));
                }
            }
        }
        dx[at.row * upsample.plane() + place] = sum.sum;
    }
}
