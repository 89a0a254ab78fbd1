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
    EACH(i, count) y[i] = activate(which, x[i]);
}

KERNEL activation_backward(
    u64 which, u64 count, const Element* saved, const Element* dy, Element* dx
) {
    EACH(i, count) dx[i] = activation_gradient(which, saved[i], dy[i]);
}

KERNEL add(u64 count, const Element* a, const Element* b, Element* sum) {
    EACH(i, count) sum[i] = a[i] + b[i];
}

KERNEL fill(u64 count, u64 bits, Element* y) {
    EACH(i, count) y[i] = f32_of(bits);
}

// Extents, and how far apart elements of the second operand are: 0 where it is repeated.
struct Broadcast {
    u64 extent[6], stride[6];

    __device__ __forceinline__ u64 elements() const {
        return extent[0] * extent[1] * extent[2] * extent[3] * extent[4] * extent[5];
    }
    __device__ __forceinline__ u64 smaller(u64 index) const {
        u64 place = 0;
        for (u32 axis = 6; axis-- > 0;) {
            place += index % extent[axis] * stride[axis];
            index /= extent[axis];
        }
        return place;
    }
    // The element that is the `repeat`th of those over one of the second operand, which is counted
    // along the axes that are not repeated.
    __device__ __forceinline__ u64 larger(u64 place, u64 repeat) const {
        u64 index = 0, size = 1;
        for (u32 axis = 6; axis-- > 0;) {
            u64* from = stride[axis] == 0 ? &repeat : &place;
            index += *from % extent[axis] * size;
            *from /= extent[axis];
            size *= extent[axis];
        }
        return index;
    }
};

#define BROADCAST_ARGUMENTS                                                                        \
    u64 e0, u64 e1, u64 e2, u64 e3, u64 e4, u64 e5, u64 s0, u64 s1, u64 s2, u64 s3, u64 s4, u64 s5
#define BROADCAST Broadcast { {e0, e1, e2, e3, e4, e5}, {s0, s1, s2, s3, s4, s5} }

KERNEL add_broadcast(BROADCAST_ARGUMENTS, const Element* a, const Element* b, Element* y) {
    Broadcast broadcast = BROADCAST;
    EACH(i, broadcast.elements()) y[i] = a[i] + b[broadcast.smaller(i)];
}

KERNEL multiply_broadcast(BROADCAST_ARGUMENTS, const Element* a, const Element* b, Element* y) {
    Broadcast broadcast = BROADCAST;
    EACH(i, broadcast.elements()) y[i] = a[i] * b[broadcast.smaller(i)];
}

// Sums of dy, or of a times dy, over what is repeated: a block of threads an element.
KERNEL sum_repeated(BROADCAST_ARGUMENTS, u64 count, const Element* a, const Element* dy, Element* db) {
    __shared__ float parts[WARP];
    Broadcast broadcast = BROADCAST;
    u64 repeats = broadcast.elements() / count;
    EACH_ROW(place, count) {
        Sum sum;
        for (u64 repeat = threadIdx.x; repeat < repeats; repeat += blockDim.x) {
            u64 i = broadcast.larger(place, repeat);
            sum.add(a == nullptr ? dy[i] : __fmul_rn(a[i], dy[i]));
        }
        float total = block_sum(sum.sum, parts);
        if (threadIdx.x == 0) db[place] = total;
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
