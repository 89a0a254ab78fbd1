// What has floats alone, whatever activations are stored as: attention's scores, which are workspace,
// what adds up in memory, and running statistics.

// Attention's weights again, from scores and what the forward pass saved of each row.
KERNEL weights_of_scores(u64 rows, u64 width, u64 first, const float* logarithms, float* scores) {
    EACH(i, rows * width) scores[i] = expf(scores[i] - logarithms[first + i / width]);
}

// The gradient of scores from that of weights, which it lies over: less the inner product of the
// rows of y and dy, which lie `apart` from a start.
KERNEL slopes_of_scores(
    u64 rows, u64 width, u64 features, u64 start, u64 apart, const float* weights, const float* y, const float* dy,
    float* slopes
) {
    __shared__ float parts[WARP];
    EACH_ROW(row, rows) {
        Sum sum;
        for (u64 i = threadIdx.x; i < features; i += blockDim.x) {
            u64 at = start + row * apart + i;
            sum.add(__fmul_rn(y[at], dy[at]));
        }
        float mean = block_sum(sum.sum, parts);
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            u64 at = row * width + i;
            slopes[at] = weights[at] * (slopes[at] - mean);
        }
    }
}

// Into zeros, in the order of positions: a thread a column.
KERNEL embedding_backward(
    u64 positions, u64 rows, u64 width, u64 op, const float* tokens, const float* dy, float* dtable, u64* status
) {
    EACH(column, width) {
        for (u64 position = 0; position < positions; position++) {
            u64 token = __float_as_uint(tokens[position]);
            if (token >= rows) report(status, op);
            else dtable[token * width + column] += dy[position * width + column];
        }
    }
}

KERNEL running_statistics(u64 count, u64 channels, const float* saved, float* mean, float* variance) {
    EACH(channel, channels) {
        float deviation = 1.0f / saved[channels + channel];
        float unbiased = (float)count / (float)(count > 1 ? count - 1 : 1);
        float found = fmaxf(deviation * deviation - EPSILON, 0.0f) * unbiased;
        mean[channel] += (saved[channel] - mean[channel]) * 0.1f;
        variance[channel] += (found - variance[channel]) * 0.1f;
    }
}
