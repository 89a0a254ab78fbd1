// Rows: softmax, losses, look-ups, rotation. `status` takes the number of the op whose labels or
// tokens are wrong.

KERNEL softmax(u64 rows, u64 width, const Element* x, Element* y) {
    __shared__ float parts[WARP];
    Team team(width, parts);
    EACH_OF_TEAM(team, row, rows) {
        const Element* from = x + row * width;
        Element* to = y + row * width;
        float largest = -infinity();
        EACH_IN_ROW(team, i, width) largest = fmaxf(largest, from[i]);
        // The largest exponent becomes zero, so that nothing overflows.
        largest = team.max(largest);
        Sum sum;
        EACH_IN_ROW(team, i, width) {
            sum.add(expf(from[i] - largest));
        }
        float total = team.sum(sum.sum), share = 1.0f / total;
        // Exponentials are computed once more rather than kept: an element is rounded once.
        EACH_IN_ROW(team, i, width) to[i] = expf(from[i] - largest) * share;
    }
}

KERNEL softmax_backward(u64 rows, u64 width, const Element* y, const Element* dy, Element* dx) {
    __shared__ float parts[WARP];
    Team team(width, parts);
    EACH_OF_TEAM(team, row, rows) {
        Sum sum;
        EACH_IN_ROW(team, i, width) {
            sum.add(__fmul_rn(y[row * width + i], dy[row * width + i]));
        }
        float mean = team.sum(sum.sum);
        EACH_IN_ROW(team, i, width) {
            u64 at = row * width + i;
            dx[at] = y[at] * (dy[at] - mean);
        }
    }
}

// The loss of each row.
KERNEL cross_entropy(
    u64 rows, u64 classes, u64 op, const Element* logits, const float* labels, float* losses,
    Element* probabilities, u64* status
) {
    __shared__ float parts[WARP];
    Team team(classes, parts);
    EACH_OF_TEAM(team, row, rows) {
        const Element* from = logits + row * classes;
        u32 label = __float_as_uint(labels[row]);
        if (label >= classes) {
            report(status, op);
            label = 0;
        }
        float largest = -infinity();
        EACH_IN_ROW(team, i, classes) largest = fmaxf(largest, from[i]);
        largest = team.max(largest);
        Sum sum;
        EACH_IN_ROW(team, i, classes) sum.add(expf(from[i] - largest));
        float total = team.sum(sum.sum);
        EACH_IN_ROW(team, i, classes) probabilities[row * classes + i] = expf(from[i] - largest) / total;
        if (team.thread() == 0) losses[row] = logf(total) - (from[label] - largest);
    }
}

// The sums of parts of so many losses, a block of threads each.
KERNEL sum_losses(u64 count, u64 part, const float* losses, float* sums) {
    __shared__ float parts[WARP];
    EACH_ROW(row, (count + part - 1) / part) {
        Sum sum;
        u64 end = smaller((row + 1) * part, count);
        for (u64 i = row * part + threadIdx.x; i < end; i += blockDim.x) sum.add(losses[i]);
        float total = block_sum(sum.sum, parts);
        if (threadIdx.x == 0) sums[row] = total;
    }
}

KERNEL_OF_ONE_BLOCK mean_loss(u64 count, u64 sums, const float* from, float* loss) {
    __shared__ float parts[WARP];
    Sum sum;
    for (u64 i = threadIdx.x; i < sums; i += blockDim.x) sum.add(from[i]);
    float total = block_sum(sum.sum, parts);
    if (threadIdx.x == 0) *loss = total / (float)count;
}

KERNEL cross_entropy_backward(
    u64 rows, u64 classes, u64 op, const Element* probabilities, const float* labels, Element* dlogits,
    u64* status
) {
    float share = 1.0f / (float)rows;
    for (Walk at = grid_walk(classes); at.row < rows; at.next()) {
        u32 label = __float_as_uint(labels[at.row]);
        if (label >= classes) report(status, op);
        u64 i = at.row * classes + at.column;
        float value = probabilities[i] * share;
        dlogits[i] = at.column == label ? value - share : value;
    }
}

KERNEL binary_cross_entropy(
    u64 count, u64 op, const Element* logits, const float* labels, float* losses, Element* probabilities,
    u64* status
) {
    EACH(i, count) {
        u32 label = __float_as_uint(labels[i]);
        if (label > 1) report(status, op);
        float x = logits[i], target = label == 1 ? 1.0f : 0.0f;
        probabilities[i] = 1.0f / (1.0f + expf(-x));
        losses[i] = fmaxf(x, 0.0f) - x * target + log1pf(expf(-fabsf(x)));
    }
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
    for (Walk at = grid_walk(width); at.row < positions; at.next()) {
        u64 token = __float_as_uint(tokens[at.row]);
        if (token >= rows) report(status, op);
        y[at.row * width + at.column] = token < rows ? table[token * width + at.column] : 0.0f;
    }
}

// Turns pairs of features by their position; `direction` is 1 or -1. A frequency is rounded once, from 64
// bits, as a good powf does: what it is off is multiplied by the token.
KERNEL rotary(
    u64 count, u64 tokens, u64 features, u64 width, u64 base, u64 direction, const Element* x, Element* y
) {
    double doublings = log2((double)f32_of(base));
    for (Walk at = grid_walk(features / 2); at.row < count / features; at.next()) {
        u32 pair = (u32)at.column % (u32)(width / 2);
        float power = -2.0f * (float)pair / (float)width, frequency = (float)exp2((double)power * doublings);
        float token = (float)(at.row % tokens);
        float angle = f32_of(direction) * token * frequency, sine = sinf(angle), cosine = cosf(angle);
        u64 i = at.row * features + 2 * at.column;
        float a = x[i], b = x[i + 1];
        y[i] = a * cosine - b * sine;
        y[i + 1] = a * sine + b * cosine;
    }
}
