// Normalisation: a block of threads a channel or a row.

// Index of the ith value of a channel: planes of `plane` elements, `channels` apart.
DEVICE u64 of_channel(u64 i, u64 channel, u64 channels, u64 plane) {
    return (i / plane * channels + channel) * plane + i % plane;
}

KERNEL batch_norm(
    u64 images, u64 channels, u64 plane, const Element* x, const float* gamma, const float* beta, Element* y,
    float* saved
) {
    __shared__ float parts[WARP];
    u64 count = images * plane;
    EACH_ROW(channel, channels) {
        Sum sum;
        for (u64 i = threadIdx.x; i < count; i += blockDim.x) sum.add(x[of_channel(i, channel, channels, plane)]);
        float mean = block_sum(sum.sum, parts) / (float)count;
        Sum squares;
        for (u64 i = threadIdx.x; i < count; i += blockDim.x) {
            float off = x[of_channel(i, channel, channels, plane)] - mean;
            squares.add(__fmul_rn(off, off));
        }
        float inverse = 1.0f / sqrtf(block_sum(squares.sum, parts) / (float)count + EPSILON);
        if (threadIdx.x == 0) {
            saved[channel] = mean;
            saved[channels + channel] = inverse;
        }
        float scale = gamma[channel] * inverse, shift = beta[channel] - mean * scale;
        for (u64 i = threadIdx.x; i < count; i += blockDim.x) {
            u64 at = of_channel(i, channel, channels, plane);
            y[at] = x[at] * scale + shift;
        }
    }
}

KERNEL batch_norm_backward(
    u64 images, u64 channels, u64 plane, const Element* x, const float* gamma, const float* saved,
    const Element* dy, Element* dx, Element* dgamma, Element* dbeta
) {
    __shared__ float parts[WARP];
    u64 count = images * plane;
    EACH_ROW(channel, channels) {
        float mean = saved[channel], inverse = saved[channels + channel];
        Sum plain, weighted;
        for (u64 i = threadIdx.x; i < count; i += blockDim.x) {
            u64 at = of_channel(i, channel, channels, plane);
            plain.add(dy[at]);
            weighted.add(__fmul_rn(dy[at], x[at] - mean));
        }
        float dy_sum = block_sum(plain.sum, parts), dy_x_sum = block_sum(weighted.sum, parts);
        if (threadIdx.x == 0) {
            dbeta[channel] = dy_sum;
            dgamma[channel] = dy_x_sum * inverse;
        }
        float scale = gamma[channel] * inverse, dy_mean = dy_sum / (float)count;
        float slope = dy_x_sum / (float)count * inverse * inverse;
        for (u64 i = threadIdx.x; i < count; i += blockDim.x) {
            u64 at = of_channel(i, channel, channels, plane);
            dx[at] = scale * (dy[at] - dy_mean - (x[at] - mean) * slope);
        }
    }
}

// Saved are the means, where rows are centred, and then the inverse deviations.
KERNEL row_norm(
    u64 rows, u64 width, u64 centred, const Element* x, const float* gamma, const float* beta, Element* y,
    float* saved
) {
    __shared__ float parts[WARP];
    float* inverses = saved + (centred ? rows : 0);
    EACH_ROW(row, rows) {
        const Element* from = x + row * width;
        Sum sum;
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) sum.add(from[i]);
        float mean = centred ? block_sum(sum.sum, parts) / (float)width : 0.0f;
        Sum squares;
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            squares.add(__fmul_rn(from[i] - mean, from[i] - mean));
        }
        float inverse = 1.0f / sqrtf(block_sum(squares.sum, parts) / (float)width + EPSILON);
        if (threadIdx.x == 0) {
            if (centred) saved[row] = mean;
            inverses[row] = inverse;
        }
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            float value = (from[i] - mean) * inverse * gamma[i];
            y[row * width + i] = beta == nullptr ? value : value + beta[i];
        }
    }
}

KERNEL row_norm_backward(
    u64 rows, u64 width, u64 centred, const Element* x, const float* gamma, const float* saved,
    const Element* dy, Element* dx
) {
    __shared__ float parts[WARP];
    const float* inverses = saved + (centred ? rows : 0);
    EACH_ROW(row, rows) {
        float mean = centred ? saved[row] : 0.0f, inverse = inverses[row];
        Sum plain, weighted;
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            float gradient = __fmul_rn(dy[row * width + i], gamma[i]);
            plain.add(gradient);
            weighted.add(__fmul_rn(gradient, (x[row * width + i] - mean) * inverse));
        }
        float total = block_sum(plain.sum, parts) / (float)width;
        float slope = block_sum(weighted.sum, parts) / (float)width;
        if (!centred) total = 0.0f;
        for (u64 i = threadIdx.x; i < width; i += blockDim.x) {
            u64 at = row * width + i;
            dx[at] = inverse * (dy[at] * gamma[i] - total - (x[at] - mean) * inverse * slope);
        }
    }
}

// Gradients of gamma and, where there is one, beta: sums down the rows.
KERNEL row_norm_parameters(
    u64 rows, u64 width, u64 centred, const Element* x, const float* saved, const Element* dy, Element* dgamma,
    Element* dbeta
) {
    const float* inverses = saved + (centred ? rows : 0);
    EACH(column, width) {
        Sum gamma, beta;
        for (u64 row = 0; row < rows; row++) {
            u64 at = row * width + column;
            gamma.add(__fmul_rn(dy[at], (x[at] - (centred ? saved[row] : 0.0f)) * inverses[row]));
            beta.add(dy[at]);
        }
        dgamma[column] = gamma.sum;
        if (dbeta != nullptr) dbeta[column] = beta.sum;
    }
}
