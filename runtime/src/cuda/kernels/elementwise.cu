// Element by element: activations, sums and products, dropout, optimizers. An output may lie over
// its first input.

// Numbered as Activation::ALL.
enum { RELU, LEAKY_RELU, ELU, RELU6, GELU, SILU, SIGMOID, TANH };

DEVICE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

constexpr float GELU_CUBE = 0.044715f;
constexpr float GELU_SCALE = 0.79788456f;

DEVICE float gelu_argument(float x) { return GELU_SCALE * (x + GELU_CUBE * x * x * x); }

DEVICE float activate(u64 which, float x) {
    switch (which) {
        case RELU: return x <= 0.0f ? 0.0f : x;
        case LEAKY_RELU: return x <= 0.0f ? 0.01f * x : x;
        case ELU: return x <= 0.0f ? expm1f(x) : x;
        case RELU6: return x <= 0.0f ? 0.0f : x > 6.0f ? 6.0f : x;
        case GELU: return 0.5f * x * (1.0f + tanhf(gelu_argument(x)));
        case SILU: return x * sigmoid(x);
        case SIGMOID: return sigmoid(x);
        default: return tanhf(x);
    }
}

DEVICE float activation_gradient(u64 which, float saved, float dy) {
    switch (which) {
        case RELU: return saved <= 0.0f ? 0.0f : dy;
        case LEAKY_RELU: return saved <= 0.0f ? 0.01f * dy : dy;
        case ELU: return saved <= 0.0f ? (saved + 1.0f) * dy : dy;
        case RELU6: return saved <= 0.0f || saved >= 6.0f ? 0.0f : dy;
        case GELU: {
            float tanh = tanhf(gelu_argument(saved));
            float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * saved * saved);
            return dy * (0.5f * (1.0f + tanh) + 0.5f * saved * (1.0f - tanh * tanh) * slope);
        }
        case SILU: {
            float s = sigmoid(saved);
            return dy * s * (1.0f + saved * (1.0f - s));
        }
        case SIGMOID: return dy * saved * (1.0f - saved);
        default: return dy * (1.0f - saved * saved);
    }
}

KERNEL activation(u64 which, u64 count, const Element* x, Element* y) {
    map(count, y, [=](float x) { return activate(which, x); }, x);
}

KERNEL activation_backward(
    u64 which, u64 count, const Element* saved, const Element* dy, Element* dx
) {
    map(count, dx, [=](float saved, float dy) { return activation_gradient(which, saved, dy); }, saved, dy);
}

KERNEL add(u64 count, const Element* a, const Element* b, Element* sum) {
    map(count, sum, [](float a, float b) { return a + b; }, a, b);
}

KERNEL fill(u64 count, u64 bits, Element* y) {
    map(count, y, [=]() { return f32_of(bits); });
}

// Extents, and how far apart elements of the second operand are: 0 where it is repeated.
struct Broadcast {
    u64 extent[6], stride[6];

    __device__ __forceinline__ u64 elements() const {
        return extent[0] * extent[1] * extent[2] * extent[3] * extent[4] * extent[5];
    }
    // Divisions in 32 bits are several times as quick.
    __device__ __forceinline__ bool is_small() const { return elements() >> 32 == 0; }

    // Where in the second operand an element of the first one is found.
    template <class Index> __device__ __forceinline__ u64 smaller(Index index) const {
        u64 place = 0;
        for (u32 axis = 6; axis-- > 0;) {
            if (extent[axis] == 1) continue;
            place += index % (Index)extent[axis] * stride[axis];
            index /= (Index)extent[axis];
        }
        return place;
    }
    // Where in the first operand the nth place is along the axes that are repeated, or those that are not.
    // An element is where both add up to.
    template <class Index> __device__ __forceinline__ u64 along(bool repeated, Index n) const {
        u64 index = 0, size = 1;
        for (u32 axis = 6; axis-- > 0;) {
            if (extent[axis] != 1 && (stride[axis] == 0) == repeated) {
                index += n % (Index)extent[axis] * size;
                n /= (Index)extent[axis];
            }
            size *= extent[axis];
        }
        return index;
    }
};

// A function of both operands' elements. Four of the first lie in one row, where rows are of fours.
template <u32 N, class Index, class F> DEVICE void broadcast_several(
    const Broadcast& broadcast, F function, const Element* a, const Element* b, Element* y
) {
    u64 step = broadcast.stride[5];
    EACH(i, broadcast.elements() / N) {
        const Element* other = b + broadcast.smaller<Index>(N * i);
        Several<Element, N> from = ((const Several<Element, N>*)a)[i], to;
        for (u32 k = 0; k < N; k++) to.of[k] = function(from.of[k], other[k * step]);
        ((Several<Element, N>*)y)[i] = to;
    }
}

template <class F> DEVICE void broadcast_with(
    const Broadcast& broadcast, F function, const Element* a, const Element* b, Element* y
) {
    bool fours = broadcast.extent[5] % 4 == 0 && lie_at_fours(a, y);
    if (!broadcast.is_small()) broadcast_several<1, u64>(broadcast, function, a, b, y);
    else if (fours) broadcast_several<4, u32>(broadcast, function, a, b, y);
    else broadcast_several<1, u32>(broadcast, function, a, b, y);
}

#define BROADCAST_ARGUMENTS                                                                        \
    u64 e0, u64 e1, u64 e2, u64 e3, u64 e4, u64 e5, u64 s0, u64 s1, u64 s2, u64 s3, u64 s4, u64 s5
#define BROADCAST Broadcast { {e0, e1, e2, e3, e4, e5}, {s0, s1, s2, s3, s4, s5} }

KERNEL add_broadcast(BROADCAST_ARGUMENTS, const Element* a, const Element* b, Element* y) {
    broadcast_with(BROADCAST, [](float a, float b) { return a + b; }, a, b, y);
}

KERNEL multiply_broadcast(BROADCAST_ARGUMENTS, const Element* a, const Element* b, Element* y) {
    broadcast_with(BROADCAST, [](float a, float b) { return a * b; }, a, b, y);
}

// What is added up: dy, or a times dy.
DEVICE float term(const Element* a, const Element* dy, u64 i) {
    return a == nullptr ? (float)dy[i] : __fmul_rn(a[i], dy[i]);
}

// Sums over what is repeated, each in so many parts: a block of threads a part. What is in one part is done.
KERNEL sum_repeated(
    BROADCAST_ARGUMENTS, u64 count, u64 parts, const Element* a, const Element* dy, float* sums, Element* db
) {
    __shared__ float shared[WARP];
    Broadcast broadcast = BROADCAST;
    u64 repeats = broadcast.elements() / count;
    EACH_ROW(row, count * parts) {
        u64 place = row % count, part = row / count, first = broadcast.along<u64>(false, place);
        u64 begin = repeats * part / parts, end = repeats * (part + 1) / parts;
        Sum sum;
        for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
            u64 at = broadcast.is_small() ? broadcast.along<u32>(true, i) : broadcast.along<u64>(true, i);
            sum.add(term(a, dy, first + at));
        }
        float total = block_sum(sum.sum, shared);
        if (threadIdx.x != 0) continue;
        if (parts == 1) db[place] = total;
        else sums[row] = total;
    }
}

// The same of channels' parts.
KERNEL sum_channels(CHANNELS_ARGUMENTS, const Element* a, const Element* dy, float* sums) {
    __shared__ float shared[WARP];
    Channels of = CHANNELS;
    EACH_ROW(row, channels * parts) {
        Sum sum;
        if (a == nullptr) of.read(row, [&](float dy) { sum.add(dy); }, dy);
        else of.read(row, [&](float a, float dy) { sum.add(__fmul_rn(a, dy)); }, a, dy);
        float total = block_sum(sum.sum, shared);
        if (threadIdx.x == 0) sums[row % parts * channels + row / parts] = total;
    }
}

// Sums down the columns of parts of the rows: a lane a column, and the warps of a block share the rows.
KERNEL sum_columns(u64 rows, u64 columns, u64 parts, const Element* a, const Element* dy, float* sums) {
    __shared__ float shared[WARP][WARP];
    u64 across = (columns + WARP - 1) / WARP;
    EACH_ROW(tile, across * parts) {
        u64 part = tile / across, column = tile % across * WARP + lane();
        u64 end = column < columns ? rows * (part + 1) / parts : 0;
        Sum sum;
        for (u64 row = rows * part / parts + warp(); row < end; row += warps()) {
            sum.add(term(a, dy, row * columns + column));
        }
        float total = sum_of_warps(sum.sum, shared);
        if (warp() == 0 && column < columns) sums[part * columns + column] = total;
    }
}

// Adds up parts, which lie behind one another.
KERNEL sum_parts(u64 count, u64 parts, const float* sums, Element* db) {
    EACH(i, count) {
        Sum sum;
        for (u64 part = 0; part < parts; part++) sum.add(sums[part * count + i]);
        db[i] = sum.sum;
    }
}

DEVICE u64 mix(u64 bits) {
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9ull;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebull;
    return bits ^ bits >> 31;
}

// Keeps what is below the bound of 2^32, as dropout.rs does.
KERNEL dropout(
    u64 count, u64 layer, u64 bound, u64 scale, u64 seed_cells, u64 seed_bits, const Element* x, const float* seed,
    Element* y
) {
    u64 key = 0;
    for (u64 i = 0; i < seed_cells; i++) key ^= (u64)__float_as_uint(seed[i]) << i * seed_bits;
    key = mix(key ^ mix(layer + 1));
    EACH(i, count) {
        u64 draw = mix(key + (i + 1) * 0x9e3779b97f4a7c15ull);
        y[i] = draw >> 32 < bound ? x[i] * f32_of(scale) : 0.0f;
    }
}

KERNEL sgd(
    u64 count, u64 rate, u64 momentum, u64 decay, const Element* gradient, float* parameter, float* velocity
) {
    EACH(i, count) {
        float p = parameter[i], g = gradient[i] + f32_of(decay) * p;
        if (velocity != nullptr) {
            g = f32_of(momentum) * velocity[i] + g;
            velocity[i] = g;
        }
        parameter[i] = p - f32_of(rate) * g;
    }
}

// The number of the step, behind both moments. One thread.
KERNEL adam_step(u64 count, float* state) {
    if (blockIdx.x == 0 && threadIdx.x == 0) state[2 * count] += 1.0f;
}

KERNEL adam(
    u64 count, u64 rate, u64 beta1, u64 beta2, u64 epsilon, const Element* gradient, float* parameter, float* state
) {
    float b1 = f32_of(beta1), b2 = f32_of(beta2), step = state[2 * count];
    // 1 - beta^step, which is a small difference of large numbers otherwise.
    float scale1 = 1.0f / -expm1f(step * logf(b1)), scale2 = 1.0f / -expm1f(step * logf(b2));
    EACH(i, count) {
        float g = gradient[i];
        float m = b1 * state[i] + (1.0f - b1) * g;
        float v = b2 * state[count + i] + (1.0f - b2) * g * g;
        state[i] = m;
        state[count + i] = v;
        parameter[i] -= f32_of(rate) * (m * scale1) / (sqrtf(v * scale2) + f32_of(epsilon));
    }
}
