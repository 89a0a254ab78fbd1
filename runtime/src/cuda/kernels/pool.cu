// Pooling and up-sampling: a thread an output, backward a thread an input, which sums over the windows that it lies
// under.

struct Range {
    u64 begin, end;
};

// Along each axis: extents of input and output; the window, or parts of nearly equal size.
struct Pool {
    u64 input[3], output[3], kernel[3], step[3], padding[3], parts;

    __device__ __forceinline__ u64 plane() const { return input[0] * input[1] * input[2]; }
    __device__ __forceinline__ u64 positions() const { return output[0] * output[1] * output[2]; }

    // The cells under a position.
    __device__ __forceinline__ Range under(u32 axis, u64 position) const {
        if (parts) {
            u64 extent = input[axis], count = output[axis];
            return Range{position * extent / count, ((position + 1) * extent + count - 1) / count};
        }
        u64 first = position * step[axis], last = first + kernel[axis];
        return Range{first > padding[axis] ? first - padding[axis] : 0,
            smaller(last > padding[axis] ? last - padding[axis] : 0, input[axis])};
    }

    // The positions over a cell.
    __device__ __forceinline__ Range over(u32 axis, u64 cell) const {
        if (parts) {
            u64 extent = input[axis], count = output[axis];
            return Range{cell * count / extent, ((cell + 1) * count + extent - 1) / extent};
        }
        u64 reach = cell + padding[axis];
        u64 first = reach >= kernel[axis] ? (reach - kernel[axis]) / step[axis] + 1 : 0;
        return Range{first, smaller(reach / step[axis] + 1, output[axis])};
    }
};

#define POOL_ARGUMENTS                                                                             \
    u64 planes, u64 i0, u64 i1, u64 i2, u64 o0, u64 o1, u64 o2, u64 k0, u64 k1, u64 k2, u64 s0, u64 s1, \
        u64 s2, u64 p0, u64 p1, u64 p2, u64 parts
#define POOL                                                                                       \
    Pool { {i0, i1, i2}, {o0, o1, o2}, {k0, k1, k2}, {s0, s1, s2}, {p0, p1, p2}, parts }

// Cells under a position, and positions over a cell.
#define RANGES(pool, function, index, extents)                                                     \
    Range depths = (pool).function(0, (index) / (extents)[2] / (extents)[1]);                       \
    Range lines = (pool).function(1, (index) / (extents)[2] % (extents)[1]);                        \
    Range cells = (pool).function(2, (index) % (extents)[2])

KERNEL max_pool(POOL_ARGUMENTS, const Element* x, Element* y, float* positions) {
    Pool pool = POOL;
    EACH(i, planes * pool.positions()) {
        const Element* plane = x + i / pool.positions() * pool.plane();
        RANGES(pool, under, i % pool.positions(), pool.output);
        u64 best = (depths.begin * i1 + lines.begin) * i2 + cells.begin;
        float largest = plane[best];
        for (u64 depth = depths.begin; depth < depths.end; depth++) {
            for (u64 line = lines.begin; line < lines.end; line++) {
                for (u64 cell = cells.begin; cell < cells.end; cell++) {
                    u64 at = (depth * i1 + line) * i2 + cell;
                    float value = plane[at];
                    if (value > largest || value != value) {
                        largest = value;
                        best = at;
                    }
                }
            }
        }
        y[i] = largest;
        positions[i] = __uint_as_float((u32)best);
    }
}

KERNEL max_pool_backward(POOL_ARGUMENTS, const float* positions, const Element* dy, Element* dx) {
    Pool pool = POOL;
    EACH(i, planes * pool.plane()) {
        u64 first = i / pool.plane() * pool.positions();
        RANGES(pool, over, i % pool.plane(), pool.input);
        float sum = 0;
        for (u64 depth = depths.begin; depth < depths.end; depth++) {
            for (u64 line = lines.begin; line < lines.end; line++) {
                for (u64 cell = cells.begin; cell < cells.end; cell++) {
                    u64 at = first + (depth * o1 + line) * o2 + cell;
                    if (__float_as_uint(positions[at]) == i % pool.plane()) sum += dy[at];
                }
            }
        }
        dx[i] = sum;
    }
}

KERNEL average_pool(POOL_ARGUMENTS, const Element* x, Element* y) {
    Pool pool = POOL;
    EACH(i, planes * pool.positions()) {
        const Element* plane = x + i / pool.positions() * pool.plane();
        RANGES(pool, under, i % pool.positions(), pool.output);
        Sum sum;
        u64 count = 0;
        for (u64 depth = depths.begin; depth < depths.end; depth++) {
            for (u64 line = lines.begin; line < lines.end; line++) {
                for (u64 cell = cells.begin; cell < cells.end; cell++, count++) {
                    sum.add(plane[(depth * i1 + line) * i2 + cell]);
                }
            }
        }
        y[i] = sum.sum / (float)count;
    }
}

KERNEL average_pool_backward(POOL_ARGUMENTS, const Element* dy, Element* dx) {
    Pool pool = POOL;
    EACH(i, planes * pool.plane()) {
        u64 first = i / pool.plane() * pool.positions();
        RANGES(pool, over, i % pool.plane(), pool.input);
        float sum = 0;
        for (u64 depth = depths.begin; depth < depths.end; depth++) {
            for (u64 line = lines.begin; line < lines.end; line++) {
                for (u64 cell = cells.begin; cell < cells.end; cell++) {
                    Range z = pool.under(0, depth), y = pool.under(1, line), x = pool.under(2, cell);
                    u64 count = (z.end - z.begin) * (y.end - y.begin) * (x.end - x.begin);
                    sum += dy[first + (depth * o1 + line) * o2 + cell] / (float)count;
                }
            }
        }
        dx[i] = sum;
    }
}

// Linear up-sampling by whole factors: along each axis extents of input and output.
struct Upsample {
    u64 input[3], output[3];

    __device__ __forceinline__ u64 plane() const { return input[0] * input[1] * input[2]; }
    __device__ __forceinline__ u64 positions() const { return output[0] * output[1] * output[2]; }

    // Of the two cells that a position lies between, the first, and the second one's weight.
    __device__ __forceinline__ u64 first(u32 axis, u64 position, float* weight) const {
        float factor = (float)(output[axis] / input[axis]);
        float at = fmaxf(((float)position + 0.5f) / factor - 0.5f, 0.0f);
        u64 low = smaller((u64)at, input[axis] - 1);
        *weight = at - (float)low;
        return low;
    }
    // The weight that a cell has in a position.
    __device__ __forceinline__ float weight(u32 axis, u64 position, u64 cell) const {
        float second, sum = 0.0f;
        u64 low = first(axis, position, &second);
        if (low == cell) sum += 1.0f - second;
        if (smaller(low + 1, input[axis] - 1) == cell) sum += second;
        return sum;
    }
    // Positions in which a cell can have a weight.
    __device__ __forceinline__ Range over(u32 axis, u64 cell) const {
        u64 factor = output[axis] / input[axis];
        return Range{cell == 0 ? 0 : (cell - 1) * factor, smaller((cell + 2) * factor, output[axis])};
    }
};

#define UPSAMPLE_ARGUMENTS u64 planes, u64 i0, u64 i1, u64 i2, u64 o0, u64 o1, u64 o2
#define UPSAMPLE Upsample { {i0, i1, i2}, {o0, o1, o2} }

KERNEL upsample(UPSAMPLE_ARGUMENTS, const Element* x, Element* y) {
    Upsample upsample = UPSAMPLE;
    EACH(i, planes * upsample.positions()) {
        const Element* plane = x + i / upsample.positions() * upsample.plane();
        u64 position[3] = {i % upsample.positions() / o2 / o1, i / o2 % o1, i % o2}, low[3];
        float weight[3];
        for (u32 axis = 0; axis < 3; axis++) low[axis] = upsample.first(axis, position[axis], &weight[axis]);
        float sum = 0;
        for (u32 corner = 0; corner < 8; corner++) {
            float share = 1;
            u64 at = 0;
            for (u32 axis = 0; axis < 3; axis++) {
                bool second = corner >> (2 - axis) & 1;
                share *= second ? weight[axis] : 1.0f - weight[axis];
                at = at * upsample.input[axis] + smaller(low[axis] + second, upsample.input[axis] - 1);
            }
            if (share > 0) sum += share * plane[at];
        }
        y[i] = sum;
    }
}

KERNEL upsample_backward(UPSAMPLE_ARGUMENTS, const Element* dy, Element* dx) {
    Upsample upsample = UPSAMPLE;
    EACH(i, planes * upsample.plane()) {
        u64 first = i / upsample.plane() * upsample.positions();
        u64 z = i % upsample.plane() / i2 / i1, y = i / i2 % i1, x = i % i2;
        RANGES(upsample, over, i % upsample.plane(), upsample.input);
        Sum sum;
        for (u64 depth = depths.begin; depth < depths.end; depth++) {
            for (u64 line = lines.begin; line < lines.end; line++) {
                float share = upsample.weight(0, depth, z) * upsample.weight(1, line, y);
                for (u64 cell = cells.begin; share > 0 && cell < cells.end; cell++) {
                    float weight = share * upsample.weight(2, cell, x);
                    sum.add(__fmul_rn(weight, dy[first + (depth * o1 + line) * o2 + cell]));
                }
            }
        }
        dx[i] = sum.sum;
    }
}
