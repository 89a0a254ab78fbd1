// Normalisation: of channels by parts, and of rows by a team of threads each.

// Of each part the sum, and behind all of those the squares of what is off its own mean: nothing
// cancels, however far values are from zero.
KERNEL batch_norm_parts(CHANNELS_ARGUMENTS, const Element* x, float* sums) {
    __shared__ float shared[WARP];
    Channels of = CHANNELS;
    EACH_ROW(row, channels * parts) {
        Sum sum, squares;
        of.read(row, [&](float x) { sum.add(x); }, x);
        float total = block_sum(sum.sum, shared);
        float mean = total / (float)(of.begin(row % parts + 1) - of.begin(row % parts));
        of.read(row, [&](float x) { squares.add(__fmul_rn(x - mean, x - mean)); }, x);
        float off = block_sum(squares.sum, shared);
        if (threadIdx.x == 0) {
            sums[row] = total;
            sums[channels * parts + row] = off;
        }
    }
}

// Means and inverse deviations from all parts.
KERNEL batch_norm_statistics(CHANNELS_ARGUMENTS, const float* sums, float* saved) {
    __shared__ float shared[WARP];
    Channels of = CHANNELS;
    EACH_ROW(channel, channels) {
        const float* own = sums + channel * parts;
        Sum sum, squares;
        for (u64 part = threadIdx.x; part < parts; part += blockDim.x) sum.add(own[part]);
        float mean = block_sum(sum.sum, shared) / (float)of.count();
        for (u64 part = threadIdx.x; part < parts; part += blockDim.x) {
            float count = (float)(of.begin(part + 1) - of.begin(part)), off = own[part] / count - mean;
            squares.add(own[channels * parts + part]);
            squares.add(__fmul_rn(count, __fmul_rn(off, off)));
        }
        float variance = block_sum(squares.sum, shared) / (float)of.count();
        if (threadIdx.x == 0) {
            saved[channel] = mean;
            saved[channels + channel] = 1.0f / sqrtf(variance + EPSILON);
        }
    }
}

KERNEL batch_norm(
    CHANNELS_ARGUMENTS, const Element* x, const float* gamma, const float* beta, const float* saved, Element* y
) {
    Channels of = CHANNELS;
    EACH_ROW(row, channels * parts) {
        u64 channel = row / parts;
        float scale = gamma[channel] * saved[channels + channel], shift = beta[channel] - saved[channel] * scale;
        of.write(row, y, [&](float x) { return x * scale + shift; }, x);
    }
}

// Of each part the sum of dy, and behind all of those that of dy times what x is off the mean.
KERNEL batch_norm_backward_parts(
    CHANNELS_ARGUMENTS, const Element* x, const float* saved, const Element* dy, float* sums
) {
    __shared__ float shared[WARP];
    Channels of = CHANNELS;
    EACH_ROW(row, channels * parts) {
        float mean = saved[row / parts];
        Sum plain, weighted;
        of.read(row, [&](float x, float dy) {
            plain.add(dy);
            weighted.add(__fmul_rn(dy, x - mean));
        }, x, dy);
        float dy_sum = block_sum(plain.sum, shared), dy_x_sum = block_sum(weighted.sum, shared);
        if (threadIdx.x == 0) {
            sums[row] = dy_sum;
            sums[channels * parts + row] = dy_x_sum;
        }
    }
}

// Both sums of each channel, and the gradients that they are.
KERNEL batch_norm_backward_sums(
    u64 channels, u64 parts, const float* sums, const float* saved, float* totals, Element* dgamma, Element* dbeta
) {
    __shared__ float shared[WARP];
    EACH_ROW(channel, channels) {
        const float* own = sums + channel * parts;
        Sum plain, weighted;
        for (u64 part = threadIdx.x; part < parts; part += blockDim.x) {
            plain.add(own[part]);
            weighted.add(own[channels * parts + part]);
        }
        float dy_sum = block_sum(plain.sum, shared), dy_x_sum = block_sum(weighted.sum, shared);
        if (threadIdx.x == 0) {
            totals[channel] = dy_sum;
            totals[channels + channel] = dy_x_sum;
            dbeta[channel] = dy_sum;
            dgamma[channel] = dy_x_sum * saved[channels + channel];
        }
    }
}

KERNEL batch_norm_backward(
    CHANNELS_ARGUMENTS, const Element* x, const float* gamma, const float* saved, const float* totals,
    const Element* dy, Element* dx
) {
    Channels of = CHANNELS;
    EACH_ROW(row, channels * parts) {
        u64 channel = row / parts;
        float mean = saved[channel], inverse = saved[channels + channel], count = (float)of.count();
        float scale = gamma[channel] * inverse, dy_mean = totals[channel] / count;
        float slope = totals[channels + channel] / count * inverse * inverse;
        of.write(row, dx, [&](float x, float dy) {
            return scale * (dy - dy_mean - (x - mean) * slope);
        }, x, dy);
    }
}

// Saved are the means, where rows are centred, and then the inverse deviations.
KERNEL row_norm(
    u64 rows, u64 width, u64 centred, const Element* x, const float* gamma, const float* beta, Element* y,
    float* saved
) {
    __shared__ float parts[WARP];
    Team team(width, parts);
    float* inverses = saved + (centred ? rows : 0);
    EACH_OF_TEAM(team, row, rows) {
        const Element* from = x + row * width;
        Sum sum;
        EACH_IN_ROW(team, i, width) sum.add(from[i]);
        float mean = centred ? team.sum(sum.sum) / (float)width : 0.0f;
        Sum squares;
        EACH_IN_ROW(team, i, width) {
            squares.add(__fmul_rn(from[i] - mean, from[i] - mean));
        }
        float inverse = 1.0f / sqrtf(team.sum(squares.sum) / (float)width + EPSILON);
        if (team.thread() == 0) {
            if (centred) saved[row] = mean;
            inverses[row] = inverse;
        }
        EACH_IN_ROW(team, i, width) {
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
    Team team(width, parts);
    const float* inverses = saved + (centred ? rows : 0);
    EACH_OF_TEAM(team, row, rows) {
        float mean = centred ? saved[row] : 0.0f, inverse = inverses[row];
        Sum plain, weighted;
        EACH_IN_ROW(team, i, width) {
            float gradient = __fmul_rn(dy[row * width + i], gamma[i]);
            plain.add(gradient);
            weighted.add(__fmul_rn(gradient, (x[row * width + i] - mean) * inverse));
        }
        float total = team.sum(plain.sum) / (float)width;
        float slope = team.sum(weighted.sum) / (float)width;
        if (!centred) total = 0.0f;
        EACH_IN_ROW(team, i, width) {
            u64 at = row * width + i;
            dx[at] = inverse * (dy[at] * gamma[i] - total - (x[at] - mean) * inverse * slope);
        }
    }
}

// Gradients of gamma and, behind all of those, of beta, of parts of the rows: a lane a column, and the
// warps of a block share the rows.
KERNEL row_norm_parameters(
    u64 rows, u64 width, u64 centred, u64 parts, const Element* x, const float* saved, const Element* dy, float* sums
) {
    __shared__ float shared[WARP][WARP];
    const float* inverses = saved + (centred ? rows : 0);
    u64 across = (width + WARP - 1) / WARP;
    EACH_ROW(tile, across * parts) {
        u64 part = tile / across, column = tile % across * WARP + lane();
        u64 end = column < width ? rows * (part + 1) / parts : 0;
        Sum gamma, beta;
        for (u64 row = rows * part / parts + warp(); row < end; row += warps()) {
            float dy_here = dy[row * width + column], off = x[row * width + column] - (centred ? saved[row] : 0.0f);
            gamma.add(__fmul_rn(dy_here, off * inverses[row]));
            beta.add(dy_here);
        }
        float of_gamma = sum_of_warps(gamma.sum, shared), of_beta = sum_of_warps(beta.sum, shared);
        if (warp() == 0 && column < width) {
            sums[part * width + column] = of_gamma;
            sums[(parts + part) * width + column] = of_beta;
        }
    }
}
