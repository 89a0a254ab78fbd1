// Rows: softmax, losses, look-ups, rotation. `status` takes the number of the op whose labels or
// tokens are wrong.

KERNEL softmax(u64 rows, u64 width, const Element* x, Element* y, float* logarithms) {
    __shared__ float parts[WARP];
    EACH_ROW(row, rows) {
        const Element* from = x + row * width;
        Element* to = y + row * width;
        float largest = -infinity();
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) largest = fmaxf(largest, from[i]);
        // The largest exponent becomes zero, so that nothing overflows.
        largest = block_max(largest, parts);
        Sum sum;
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            sum.add(expf(from[i] - largest));
        }
        float total = block_sum(sum.sum, parts), share = 1.0f / total;
        // Exponentials are computed once more rather than kept: an element is rounded once.
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) to[i] = expf(from[i] - largest) * share;
        if (logarithms != nullptr && threadIdx.x == 0) logarithms[row] = largest + logf(total);
    }
}

KERNEL softmax_backward(u64 rows, u64 width, const Element* y, const Element* dy, Element* dx) {
    __shared__ float parts[WARP];
    EACH_ROW(row, rows) {
        Sum sum;
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            sum.add(__fmul_rn(y[row * width + i], dy[row * width + i]));
        }
        float mean = block_sum(sum.sum, parts);
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            u64 at = row * width + i;
            dx[at] = y[at] * (dy[at] - mean);
        }
    }
}

// The sum over warps of what lane 0 of each has, by one block of threads.
DEVICE void store_loss(float of_warp, float* parts, u64 count, float* loss) {
    float total = block_sum(lane() == 0 ? of_warp : 0.0f, parts);
    if (threadIdx.x == 0) *loss = total / (float)count;
}

DEVICE float warp_sum(float value) {
    for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
        value = __fadd_rn(value, __shfl_xor_sync(ALL_LANES, value, distance));
    }
    return value;
}

// One block of threads, a warp a row.
KERNEL_OF_ONE_BLOCK cross_entropy(
    u64 rows, u64 classes, u64 op, const Element* logits, const float* labels, float* loss,
    Element* probabilities, u64* status
) {
    __shared__ float parts[WARP];
    Sum sum;
    for (u64 row = warp(); row < rows; row += warps()) {
        const Element* from = logits + row * classes;
        u32 label = __float_as_uint(labels[row]);
        if (label >= classes) {
            report(status, op);
            label = 0;
        }
        float largest = -infinity();
        for (u64 i = lane(); i < classes; i += WARP) largest = fmaxf(largest, from[i]);
        for (u32 distance = WARP / 2; distance > 0; distance /= 2) {
            largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, distance));
        }
        Sum normaliser;
        for (u64 i = lane(); i < classes; i += WARP) {
            normaliser.add(expf(from[i] - largest));
        }
        float total = warp_sum(normaliser.sum);
        for (u64 i = lane(); i < classes; i += WARP) {
            probabilities[row * classes + i] = expf(from[i] - largest) / total;
        }
        sum.add(logf(total) - (from[label] - largest));
    }
    store_loss(sum.sum, parts, rows, loss);
}

KERNEL cross_entropy_backward(
    u64 rows, u64 classes, u64 op, const Element* probabilities, const float* labels, Element* dlogits,
    u64* status
) {
    float share = 1.0f / (float)rows;
    EACH(i, rows * classes) {
        u32 label = __float_as_uint(labels[i / classes]);
        if (label >= classes) report(status, op);
        float value = probabilities[i] * share;
        dlogits[i] = i % classes == label ? value - share : value;
    }
}

// One block of threads.
KERNEL_OF_ONE_BLOCK binary_cross_entropy(
    u64 count, u64 op, const Element* logits, const float* labels, float* loss, Element* probabilities,
    u64* status
) {
    __shared__ float parts[WARP];
    Sum sum;
    for (u64 i = threadIdx.x; i < count; i += blockDim.x) {
        u32 label = __float_as_uint(labels[i]);
        if (label > 1) report(status, op);
        float x = logits[i], target = label == 1 ? 1.0f : 0.0f;
        probabilities[i] = 1.0f / (1.0f + expf(-x));
        sum.add(fmaxf(x, 0.0f) - x * target + log1pf(expf(-fabsf(x))));
    }
    store_loss(warp_sum(sum.sum), parts, count, loss);
}

KERNEL binary_cross_entropy_backward(
    u64 count, u64 op, const Element* probabilities, const float* labels, Element* dlogits, u64* status
) {
    float share = 1.0f / (float)count;
    EACH(i, count) {
        u32 label = __float_as_uint(labels[i]);
        if (label > 1) report(status, op);
        dlogits[i] = (probabilities[i] - (label == 1 ? 1.0f : 0.0f)) * share;
    }
}

KERNEL embedding(
    u64 positions, u64 rows, u64 width, u64 op, const float* tokens, const float* table, Element* y, u64* status
) {
    EACH(i, positions * width) {
        u64 token = __float_as_uint(tokens[i / width]);
        if (token >= rows) report(status, op);
        y[i] = token < rows ? table[token * width + i % width] : 0.0f;
    }
}

// Turns pairs of features by their position; `direction` is 1 or -1.
KERNEL rotary(
    u64 count, u64 tokens, u64 features, u64 width, u64 base, u64 direction, const Element* x, Element* y
) {
    EACH(i, count / 2) {
        u64 token = 2 * i / features % tokens, pair = i % (width / 2);
        float frequency = powf(f32_of(base), -2.0f * (float)pair / (float)width);
        float angle = f32_of(direction) * (float)token * frequency, sine = sinf(angle), cosine = cosf(angle);
        float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * cosine - b * sine;
        y[2 * i + 1] = a * sine + b * cosine;
    }
}
