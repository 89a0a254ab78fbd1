// What has floats alone, whatever activations are stored as: attention's scores, which are workspace,
// what adds up in memory, and running statistics.

// The keys that a query sees: all, or those up to its own, counted from the end, and always the first.
DEVICE u64 seen_keys(u64 query, u64 queries, u64 keys, u64 causal) {
    if (!causal) return keys;
    return query + 1 + keys > queries ? larger(query + 1 + keys - queries, (u64)1) : 1;
}

// Puts a value where keys are hidden.
KERNEL hide(
    u64 samples, u64 heads, u64 rows, u64 columns, u64 masked, u64 start, u64 sample, u64 head, u64 row_stride,
    u64 column_stride, float* y
) {
    EACH_ROW(at, samples * heads * rows) {
        u64 row = at % rows, matrix = at / rows;
        float* to = y + start + matrix / heads * sample + matrix % heads * head + row * row_stride;
        for (u64 column = seen_keys(row, rows, columns, 1) + threadIdx.x; column < columns; column += blockDim.x) {
            to[column * column_stride] = f32_of(masked);
        }
    }
}

// Attention's weights from scores, over which they lie, and the logarithm of each row's sum. Rows are
// the queries of one head after the other.
KERNEL weights(u64 rows, u64 queries, u64 keys, u64 causal, float* scores, float* logarithms) {
    __shared__ float parts[WARP];
    Team team(keys, parts);
    EACH_OF_TEAM(team, row, rows) {
        float* own = scores + row * keys;
        u64 seen = seen_keys(row % queries, queries, keys, causal);
        float largest = -infinity();
        EACH_IN_ROW(team, i, seen) largest = fmaxf(largest, own[i]);
        largest = team.max(largest);
        Sum sum;
        EACH_IN_ROW(team, i, seen) sum.add(expf(own[i] - largest));
        float total = team.sum(sum.sum), share = 1.0f / total;
        EACH_IN_ROW(team, i, keys) own[i] = i < seen ? expf(own[i] - largest) * share : 0.0f;
        if (team.thread() == 0) logarithms[row] = largest + logf(total);
    }
}

// The same weights again, from those logarithms.
KERNEL weights_again(u64 rows, u64 queries, u64 keys, u64 causal, const float* logarithms, float* scores) {
    Team team(keys, nullptr);
    EACH_OF_TEAM(team, row, rows) {
        float* own = scores + row * keys;
        u64 seen = seen_keys(row % queries, queries, keys, causal);
        EACH_IN_ROW(team, i, keys) own[i] = i < seen ? expf(own[i] - logarithms[row]) : 0.0f;
    }
}

// The gradient of scores from that of weights, which it lies over: less the inner product of the rows
// of y and dy, which have `features` for all heads of a query.
KERNEL slopes_of_scores(
    u64 rows, u64 queries, u64 keys, u64 heads, u64 width, u64 features, u64 start, const float* weights,
    const float* y, const float* dy, float* slopes
) {
    __shared__ float parts[WARP];
    Team team(keys, parts);
    EACH_OF_TEAM(team, row, rows) {
        u64 matrix = row / queries, query = matrix / heads * queries + row % queries;
        u64 from = start + query * features + matrix % heads * width;
        Sum sum;
        EACH_IN_ROW(team, i, width) sum.add(__fmul_rn(y[from + i], dy[from + i]));
        float mean = team.sum(sum.sum);
        EACH_IN_ROW(team, i, keys) {
            u64 at = row * keys + i;
            slopes[at] = weights[at] * (slopes[at] - mean);
        }
    }
}

// Into zeros: the block of the first position that has a token adds up all positions that have it, in
// their order, as the host does.
KERNEL embedding_backward(
    u64 positions, u64 rows, u64 width, u64 op, const float* tokens, const float* dy, float* dtable, u64* status
) {
    constexpr u32 MANY = 1024;
    __shared__ u64 found[MANY];
    __shared__ u32 sums[WARP];
    EACH_ROW(first, positions) {
        u32 token = __float_as_uint(tokens[first]);
        bool is_first = true;
        for (u64 i = threadIdx.x; i < first; i += blockDim.x) is_first &= __float_as_uint(tokens[i]) != token;
        if (!__syncthreads_and(is_first)) continue;
        if (token >= rows) {
            report(status, op);
            continue;
        }
        float* to = dtable + (u64)token * width;
        u32 count = 0;
        for (u64 begin = first; begin < positions; begin += blockDim.x) {
            u64 i = begin + threadIdx.x;
            u32 has_it = i < positions && __float_as_uint(tokens[i]) == token, all;
            u32 below = block_scan(has_it, sums, &all);
            if (has_it) found[count + below] = i;
            count += all;
            if (count + blockDim.x <= MANY && begin + blockDim.x < positions) continue;
            __syncthreads();
            for (u64 column = threadIdx.x; column < width; column += blockDim.x) {
                float sum = to[column];
                for (u32 k = 0; k < count; k++) sum += dy[found[k] * width + column];
                to[column] = sum;
            }
            __syncthreads();
            count = 0;
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
