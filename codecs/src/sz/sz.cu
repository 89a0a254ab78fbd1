// SZ: a block of threads a block of the tensor. See mod.rs for the bytes and for why.

// What is the same for all blocks.
struct SzSetting {
    u64 elements, block_elements;
    // Along each axis: to the neighbour, and to the next line of neighbours.
    u64 stride[3], extent[3];
    u32 axes, dtype;
    float bound, step, inverse_step;
    bool usable;
};

DEVICE SzSetting sz_setting(
    u64 elements, u64 block_elements, u64 dtype, u64 axes, u64 extent0, u64 extent1, u64 extent2,
    u64 bound, u64 step, u64 inverse_step
) {
    SzSetting setting = {elements, block_elements, {1, extent0, extent1}, {extent0, extent1, extent2},
        (u32)axes, (u32)dtype, __uint_as_float((u32)bound), __uint_as_float((u32)step),
        __uint_as_float((u32)inverse_step), bound != 0};
    return setting;
}

DEVICE u64 sz_blocks(const SzSetting* setting) {
    return (setting->elements + setting->block_elements - 1) / setting->block_elements;
}

DEVICE u32 sz_elements(const SzSetting* setting, u64 block) {
    return (u32)smaller(setting->block_elements, setting->elements - block * setting->block_elements);
}

DEVICE u32 sz_segments(u32 elements) { return (elements + SZ_SEGMENT - 1) / SZ_SEGMENT; }

// The quantised value; false where its reconstruction would break the bound.
DEVICE bool sz_quantize(const SzSetting* setting, float x, i32* q) {
    float shifter = __uint_as_float(SZ_SHIFTER_BITS), limit = __uint_as_float(SZ_LIMIT_BITS);
    float steps = __fmul_rn(x, setting->inverse_step);
    float shifted = __fadd_rn(steps, shifter);
    *q = (i32)(__float_as_uint(shifted) - __float_as_uint(shifter));
    float whole = __fsub_rn(shifted, shifter);
    float back = round_element(__fmul_rn(whole, setting->step), setting->dtype);
    float error = __uint_as_float(__float_as_uint(__fsub_rn(x, back)) & 0x7fffffffu);
    bool small = __uint_as_float(__float_as_uint(steps) & 0x7fffffffu) <= limit;
    return small && error <= setting->bound;
}

// The difference of an element along the first `order` axes.
DEVICE i32 sz_difference(const SzSetting* setting, const i32* q, u32 index, u32 order) {
    u32 sum = 0;
    for (u32 corner = 0; corner < 1u << order; corner++) {
        u64 back = 0;
        bool inside = true;
        for (u32 axis = 0; axis < order; axis++) {
            if (!(corner >> axis & 1)) continue;
            inside = inside && index % setting->extent[axis] >= setting->stride[axis];
            back += setting->stride[axis];
        }
        if (!inside) continue;
        u32 value = (u32)q[index - back];
        sum += __popc(corner) % 2 == 0 ? value : 0 - value;
    }
    return (i32)sum;
}

// Eight times about the bits of a difference, once coded.
DEVICE u32 sz_cost(i32 difference) {
    u32 half = 0x3f000000u >> 20;
    i32 magnitude = difference < 0 ? (i32)(0 - (u32)difference) : difference;
    u32 bits = __float_as_uint(__int2float_rn(magnitude)) >> 20;
    return larger(bits, half) - half;
}

// The class of a magnitude above 0, counted from 1, and what its extra bits say.
DEVICE u32 sz_class(u32 magnitude, u32 bits, u32* extra, u32* extra_bits) {
    u32 octave = 31 - __clz(magnitude);
    *extra_bits = octave > bits ? octave - bits : 0;
    *extra = magnitude & ((1u << *extra_bits) - 1);
    return (*extra_bits << bits) + (magnitude >> *extra_bits);
}

DEVICE u32 sz_class_start(u32 index, u32 bits, u32* extra_bits) {
    *extra_bits = index >> bits > 0 ? (index >> bits) - 1 : 0;
    return (index - (*extra_bits << bits)) << *extra_bits;
}

// A token and its extra bits.
struct SzToken {
    u32 token, extra, extra_bits;
};

DEVICE SzToken sz_run(u32 zeros) {
    SzToken run;
    run.token = sz_class(zeros, SZ_RUN_BITS, &run.extra, &run.extra_bits) - 1;
    return run;
}

DEVICE SzToken sz_value(i32 difference) {
    SzToken value;
    u32 magnitude = difference < 0 ? 0 - (u32)difference : (u32)difference;
    u32 index = sz_class(magnitude, SZ_VALUE_BITS, &value.extra, &value.extra_bits);
    value.token = SZ_RUN_TOKENS + 2 * (index - 1) + (difference < 0);
    return value;
}

// Smallest magnitude or length of a token.
DEVICE u32 sz_meaning(u32 token, u32* extra_bits) {
    if (token < SZ_RUN_TOKENS) return sz_class_start(token + 1, SZ_RUN_BITS, extra_bits);
    return sz_class_start((token - SZ_RUN_TOKENS) / 2 + 1, SZ_VALUE_BITS, extra_bits);
}

// Goes through the tokens of a segment, 32 elements at a time. All lanes call `visit(zeros, value)`
// together: a run before the lane's value and the value, 0 where there is none.
template <class Visit>
DEVICE void sz_tokens(
    const SzSetting* setting, const i32* q, u32 begin, u32 end, u32 order, Visit& visit
) {
    u32 next = begin;
    for (u32 first = begin; first < end; first += WARP) {
        u32 index = first + lane();
        i32 value = index < end ? sz_difference(setting, q, index, order) : 0;
        u32 set = __ballot_sync(ALL_LANES, value != 0);
        u32 below = set & lanes_below();
        u32 from = below == 0 ? next : first + 32 - __clz(below);
        visit.tokens(value == 0 ? 0 : index - from, value);
        if (set != 0) next = first + 32 - __clz(set);
    }
    visit.tokens(lane() == 0 ? end - next : 0, 0);
}

struct SzCount {
    u32* counts;

    __device__ __forceinline__ void tokens(u32 zeros, i32 value) {
        if (zeros > 0) atomicAdd(&counts[sz_run(zeros).token], 1u);
        if (value != 0) atomicAdd(&counts[sz_value(value).token], 1u);
    }
};

// A code word, its first bit lowest, and its length above 16 bits.
DEVICE u64 sz_code(const u32* words, SzToken token, u32* count) {
    u32 word = words[token.token], length = word >> 16;
    *count = length + token.extra_bits;
    return (u64)(word & 0xffffu) | (u64)token.extra << length;
}

// Sums the bits of a stream, and writes them where there is somewhere to write to.
struct SzStream {
    const u32* words;
    u32* out;
    u64 position;

    __device__ __forceinline__ void tokens(u32 zeros, i32 value) {
        u64 bits = 0;
        u32 count = 0, more, total;
        if (zeros > 0) bits = sz_code(words, sz_run(zeros), &count);
        if (value != 0) {
            bits |= sz_code(words, sz_value(value), &more) << count;
            count += more;
        }
        u64 begin = position + warp_scan(count, &total);
        if (out != nullptr && count > 0) or_bits(out, begin, bits, count);
        position += total;
    }
};

// Huffman codes. Shared by a block of threads.
struct SzCode {
    u32 counts[SZ_TOKENS];
    u32 words[SZ_TOKENS];
    u32 lengths[SZ_TOKENS];
    // How many words have each length, and the first of them.
    u32 of_length[SZ_MAX_LENGTH + 1];
    u32 first[SZ_MAX_LENGTH + 1];
    u32 used, valid;
};

// What finding the lengths of words needs besides.
struct SzMerge {
    // Tokens that occur, by count and number, and offers of two levels by weight.
    u32 sorted[SZ_TOKENS];
    u32 weights[2][2 * SZ_TOKENS];
    u32 leaves[SZ_MAX_LENGTH][(2 * SZ_TOKENS + 31) / 32];
    u32 occurring;
};

// Package-merge, as in huffman.rs. The place of each offer in a level is its own among its like and
// how many of the others come before it, so that all threads merge at once.
DEVICE void sz_lengths(SzCode* code, SzMerge* merge) {
    for (u32 token = threadIdx.x; token < SZ_TOKENS; token += blockDim.x) {
        code->lengths[token] = 0;
        u32 count = code->counts[token];
        if (count == 0) continue;
        u32 place = 0;
        for (u32 other = 0; other < SZ_TOKENS; other++) {
            u32 others = code->counts[other];
            if (others != 0 && (others < count || (others == count && other < token))) place++;
        }
        merge->sorted[place] = token;
        atomicAdd(&merge->occurring, 1u);
    }
    for (u32 i = threadIdx.x; i < sizeof(merge->leaves) / 4; i += blockDim.x) ((u32*)merge->leaves)[i] = 0;
    __syncthreads();
    u32 leaves = merge->occurring;
    if (leaves < 2) {
        if (leaves == 1 && threadIdx.x == 0) code->lengths[merge->sorted[0]] = 1;
        __syncthreads();
        return;
    }
    u32 below = 0;
    for (u32 level = 0; level < SZ_MAX_LENGTH; level++) {
        const u32* lower = merge->weights[(level + 1) % 2];
        u32* offers = merge->weights[level % 2];
        u32 packages = below / 2;
        for (u32 i = threadIdx.x; i < leaves + packages; i += blockDim.x) {
            bool leaf = i < leaves;
            u32 own = leaf ? i : i - leaves;
            u32 weight = leaf ? code->counts[merge->sorted[own]] : lower[2 * own] + lower[2 * own + 1];
            // Among the others, those before: packages lighter than a leaf, leaves no heavier than
            // a package.
            u32 low = 0, high = leaf ? packages : leaves;
            while (low < high) {
                u32 middle = (low + high) / 2;
                bool before = leaf ? lower[2 * middle] + lower[2 * middle + 1] < weight
                                   : code->counts[merge->sorted[middle]] <= weight;
                if (before) low = middle + 1;
                else high = middle;
            }
            u32 place = own + low;
            offers[place] = weight;
            if (leaf) atomicOr(&merge->leaves[level][place / 32], 1u << place % 32);
        }
        below = leaves + packages;
        __syncthreads();
    }
    u32 taken = 2 * leaves - 2;
    for (u32 level = SZ_MAX_LENGTH; level-- > 0;) {
        u32 tokens = 0;
        for (u32 word = 0; word * 32 < taken; word++) {
            u32 bits = merge->leaves[level][word], rest = taken - word * 32;
            tokens += __popc(rest < 32 ? bits & ((1u << rest) - 1) : bits);
        }
        for (u32 i = threadIdx.x; i < tokens; i += blockDim.x) code->lengths[merge->sorted[i]]++;
        taken = 2 * (taken - tokens);
    }
    __syncthreads();
}

// The canonical code of the lengths. `valid` says whether they make one.
DEVICE void sz_words(SzCode* code) {
    for (u32 i = threadIdx.x; i <= SZ_MAX_LENGTH; i += blockDim.x) code->of_length[i] = 0;
    if (threadIdx.x == 0) code->used = 0;
    __syncthreads();
    bool fits = true;
    for (u32 token = threadIdx.x; token < SZ_TOKENS; token += blockDim.x) {
        u32 length = code->lengths[token];
        fits = fits && length <= SZ_MAX_LENGTH;
        if (length > 0) atomicMax(&code->used, token + 1);
        if (length <= SZ_MAX_LENGTH) atomicAdd(&code->of_length[length], 1u);
    }
    fits = __syncthreads_and(fits);
    if (threadIdx.x == 0) {
        u32 word = 0;
        for (u32 length = 1; length <= SZ_MAX_LENGTH; length++) {
            code->first[length] = word << 1;
            word = code->first[length] + code->of_length[length];
            fits = fits && word <= 1u << length;
        }
        u32 with_word = SZ_TOKENS - code->of_length[0];
        bool complete = word == 1u << SZ_MAX_LENGTH;
        bool single = with_word == 1 && code->of_length[1] == 1;
        code->valid = fits && (complete || with_word == 0 || single);
    }
    __syncthreads();
    if (!code->valid) return;
    for (u32 token = threadIdx.x; token < SZ_TOKENS; token += blockDim.x) {
        u32 length = code->lengths[token], word = 0;
        if (length > 0) {
            u32 before = 0;
            for (u32 other = 0; other < token; other++) before += code->lengths[other] == length;
            word = __brev(code->first[length] + before) >> (32 - length) | length << 16;
        }
        code->words[token] = word;
    }
    __syncthreads();
}

struct SzCompress {
    SzCode code;
    SzMerge merge;
    u32 sums[WARP];
    u32 costs[4];
    u32 exceptions, bits;
    u32 stream_bytes[SZ_BLOCK / SZ_SEGMENT];
};

// Compresses a block into a slot of zeros. Returns its bytes, or all ones where it does not pay.
DEVICE u64 sz_compress_block(
    const SzSetting* setting, const u8* input, u32 elements, i32* q, u32* slot, SzCompress* shared
) {
    u32 width = width_of(setting->dtype), segments = sz_segments(elements);
    if (!setting->usable) return ~0ull;
    for (u32 i = threadIdx.x; i < SZ_TOKENS; i += blockDim.x) shared->code.counts[i] = 0;
    if (threadIdx.x < 4) shared->costs[threadIdx.x] = 0;
    if (threadIdx.x == 0) shared->exceptions = shared->bits = shared->merge.occurring = 0;
    __syncthreads();
    for (u32 i = threadIdx.x; i < elements; i += blockDim.x) {
        i32 value;
        bool kept = sz_quantize(setting, load_element(input, i, setting->dtype), &value);
        q[i] = kept ? value : 0;
        if (!kept) atomicAdd(&shared->exceptions, 1u);
    }
    __syncthreads();
    for (u32 order = 0; order <= setting->axes; order++) {
        u32 cost = 0;
        for (u32 i = threadIdx.x; i < elements; i += blockDim.x) {
            cost += sz_cost(sz_difference(setting, q, i, order));
        }
        atomicAdd(&shared->costs[order], cost);
    }
    __syncthreads();
    u32 order = 0;
    for (u32 other = 1; other <= setting->axes; other++) {
        if (shared->costs[other] < shared->costs[order]) order = other;
    }
    SzCount count = {shared->code.counts};
    for (u32 segment = warp(); segment < segments; segment += warps()) {
        u32 begin = segment * SZ_SEGMENT;
        sz_tokens(setting, q, begin, smaller(begin + SZ_SEGMENT, elements), order, count);
    }
    __syncthreads();
    sz_lengths(&shared->code, &shared->merge);
    sz_words(&shared->code);
    for (u32 token = threadIdx.x; token < SZ_TOKENS; token += blockDim.x) {
        u32 extra_bits;
        sz_meaning(token, &extra_bits);
        u32 length = shared->code.lengths[token];
        if (length > 0) atomicAdd(&shared->bits, shared->code.counts[token] * (length + extra_bits));
    }
    __syncthreads();
    u32 used = shared->code.used, exceptions = shared->exceptions;
    u64 streams_at = SZ_HEADER + 2 * segments + (used + 1) / 2;
    u64 exceptions_bytes = (u64)exceptions * (2 + width);
    u64 streams_bytes = (shared->bits + 7) / 8 + segments;
    if (streams_at + streams_bytes + exceptions_bytes >= (u64)elements * width) return ~0ull;

    for (u32 segment = warp(); segment < segments; segment += warps()) {
        u32 begin = segment * SZ_SEGMENT;
        SzStream stream = {shared->code.words, nullptr, 0};
        sz_tokens(setting, q, begin, smaller(begin + SZ_SEGMENT, elements), order, stream);
        if (lane() == 0) shared->stream_bytes[segment] = (u32)((stream.position + 7) / 8);
    }
    // Everything is put into zeros, bit by bit, because streams begin at any byte.
    for (u64 word = threadIdx.x; word < (streams_at + streams_bytes + exceptions_bytes + 3) / 4; word += blockDim.x) {
        slot[word] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        or_bits(slot, 0, order | (u64)used << 16 | (u64)exceptions << 32, 48);
    }
    for (u32 segment = threadIdx.x; segment < segments; segment += blockDim.x) {
        or_bits(slot, 8 * (SZ_HEADER + 2 * segment), shared->stream_bytes[segment], 16);
    }
    for (u32 token = threadIdx.x; token < used; token += blockDim.x) {
        or_bits(slot, 8 * (SZ_HEADER + 2 * segments) + 4 * token, shared->code.lengths[token], 4);
    }
    u64 streams_end = streams_at;
    for (u32 segment = 0; segment < segments; segment++) {
        if (segment % warps() == warp()) {
            u32 begin = segment * SZ_SEGMENT;
            SzStream stream = {shared->code.words, slot, 8 * streams_end};
            sz_tokens(setting, q, begin, smaller(begin + SZ_SEGMENT, elements), order, stream);
        }
        streams_end += shared->stream_bytes[segment];
    }
    // Exceptions in the order of elements.
    u32 done = 0;
    for (u32 first = 0; first < elements && done < exceptions; first += blockDim.x) {
        u32 i = first + threadIdx.x, total;
        i32 value;
        bool exception = i < elements && !sz_quantize(setting, load_element(input, i, setting->dtype), &value);
        u32 place = done + block_scan((u32)exception, shared->sums, &total);
        if (exception) {
            u64 bits = width == 4 ? ((const u32*)input)[i] : ((const u16*)input)[i];
            or_bits(slot, 8 * (streams_end + 2 * place), i, 16);
            or_bits(slot, 8 * (streams_end + 2 * (u64)exceptions + (u64)width * place), bits, 8 * width);
        }
        done += total;
    }
    return streams_end + exceptions_bytes;
}

// Compresses blocks into slots, and says in the table what they take. `scratch` has room for a
// block's quantised values for each block of threads.
KERNEL sz_compress(
    const u8* input, u64 elements, u64 block_elements, u64 dtype, u64 axes, u64 extent0, u64 extent1,
    u64 extent2, u64 bound, u64 step, u64 inverse_step, i32* scratch, u8* slots, u64 slot_bytes,
    u64* table
) {
    __shared__ SzCompress shared;
    SzSetting setting = sz_setting(elements, block_elements, dtype, axes, extent0, extent1, extent2,
        bound, step, inverse_step);
    u32 width = width_of(setting.dtype);
    i32* q = scratch + blockIdx.x * (u64)SZ_BLOCK;
    for (u64 block = blockIdx.x; block < sz_blocks(&setting); block += gridDim.x) {
        u32 count = sz_elements(&setting, block);
        const u8* from = input + block * block_elements * width;
        u32* slot = (u32*)(slots + block * slot_bytes);
        u64 size = sz_compress_block(&setting, from, count, q, slot, &shared);
        if (threadIdx.x == 0) table[block] = smaller(size, (u64)count * width);
        __syncthreads();
    }
}

struct SzDecompress {
    SzCode code;
    // What the next bits begin with: smallest magnitude, and length, extra bits, kind.
    u32 base[1u << SZ_MAX_LENGTH];
    u32 entry[1u << SZ_MAX_LENGTH];
    u32 stream_bytes[SZ_BLOCK / SZ_SEGMENT];
    u32 sums[WARP];
    u32 damaged;
};

DEVICE u32 sz_u16(const u8* at) { return at[0] | (u32)at[1] << 8; }

// Four bytes of a block, which lie at a multiple of four; zeros behind the block.
DEVICE u32 sz_word(const u8* block, u32 size, u32 at) {
    if (at + 4 <= size) return *(const u32*)(block + at);
    u32 word = 0;
#pragma unroll 1
    for (u32 i = 0; at + i < size; i++) word |= (u32)block[at + i] << 8 * i;
    return word;
}

// Decodes a segment, which holds zeros when it begins, from a byte of the block on. Whether its stream
// has as many bytes as it says.
DEVICE bool sz_decode(
    const SzDecompress* shared, const u8* block, u32 size, u32 begin, u32 bytes, i32* out, u32 elements
) {
    u32 at = begin / 4 * 4 + 4, held = 32 - begin % 4 * 8, done = 0;
    u64 buffer = sz_word(block, size, begin / 4 * 4) >> begin % 4 * 8, position = 0;
    while (done < elements) {
        // No word and its extra bits have more than 33 bits.
        while (held <= 32) {
            buffer |= (u64)sz_word(block, size, at) << held;
            held += 32;
            at += 4;
        }
        u32 index = (u32)buffer & ((1u << SZ_MAX_LENGTH) - 1);
        u32 entry = shared->entry[index], length = entry & 255, extra_bits = entry >> 8 & 255;
        if (length == 0) return false;
        u32 magnitude = shared->base[index] + ((u32)(buffer >> length) & ((1u << extra_bits) - 1));
        u32 kind = entry >> 16;
        if (kind != 0) out[done] = kind == 1 ? (i32)magnitude : (i32)(0 - magnitude);
        done += kind == 0 ? magnitude : 1;
        buffer >>= length + extra_bits;
        held -= length + extra_bits;
        position += length + extra_bits;
    }
    return done == elements && (position + 7) / 8 == bytes;
}

// Prefix sums along an axis. Where neighbours are beside each other, a warp a line, or all threads one
// after the other where there are fewer. `sums` is shared, one for each warp.
DEVICE void sz_accumulate(u32* values, u32 elements, u64 stride, u64 extent, u32* sums) {
    constexpr u32 EACH = 8;
    u64 lines = (elements + extent - 1) / extent;
    if (stride == 1 && lines < warps()) {
        for (u64 line = 0; line < lines; line++) {
            u32 end = (u32)smaller((u64)elements, (line + 1) * extent), before = 0;
            for (u32 first = (u32)(line * extent); first < end; first += blockDim.x * EACH) {
                u32 own = first + threadIdx.x * EACH, sum = 0, total, until[EACH];
#pragma unroll
                for (u32 i = 0; i < EACH; i++) until[i] = own + i < end ? values[own + i] : 0;
#pragma unroll
                for (u32 i = 0; i < EACH; i++) until[i] = sum += until[i];
                u32 below = before + block_scan(sum, sums, &total);
#pragma unroll
                for (u32 i = 0; i < EACH; i++) {
                    if (own + i < end) values[own + i] = below + until[i];
                }
                before += total;
            }
        }
    } else if (stride == 1) {
        for (u64 line = warp(); line < lines; line += warps()) {
            u64 end = smaller((u64)elements, (line + 1) * extent);
            u32 before = 0;
            for (u64 first = line * extent; first < end; first += WARP) {
                u64 i = first + lane();
                u32 value = i < end ? values[i] : 0, total;
                u32 sum = before + warp_scan(value, &total) + value;
                if (i < end) values[i] = sum;
                before += total;
            }
        }
    } else {
        for (u64 column = threadIdx.x; column < lines * stride; column += blockDim.x) {
            u64 line = column / stride, end = smaller((u64)elements, (line + 1) * extent);
            u32 sum = 0;
            for (u64 i = line * extent + column % stride; i < end; i += stride) {
                sum += values[i];
                values[i] = sum;
            }
        }
    }
    __syncthreads();
}

DEVICE bool sz_decompress_block(
    const SzSetting* setting, const u8* block, u64 size, u8* out, u32 elements, i32* q,
    SzDecompress* shared
) {
    u32 width = width_of(setting->dtype), segments = sz_segments(elements);
    SzCode* code = &shared->code;
    if (!setting->usable || size < SZ_HEADER + 2 * segments) return false;
    u32 order = sz_u16(block), used = sz_u16(block + 2), exceptions = sz_u16(block + 4);
    u64 streams_at = SZ_HEADER + 2 * segments + (used + 1) / 2;
    if (order > setting->axes || used > SZ_TOKENS || size < streams_at) return false;
    for (u32 segment = threadIdx.x; segment < segments; segment += blockDim.x) {
        shared->stream_bytes[segment] = sz_u16(block + SZ_HEADER + 2 * segment);
    }
    for (u32 token = threadIdx.x; token < SZ_TOKENS; token += blockDim.x) {
        u32 nibbles = token < used ? block[SZ_HEADER + 2 * segments + token / 2] : 0;
        code->lengths[token] = nibbles >> token % 2 * 4 & 15;
    }
    for (u32 i = threadIdx.x; i < 1u << SZ_MAX_LENGTH; i += blockDim.x) shared->entry[i] = 0;
    for (u32 i = threadIdx.x; i < elements; i += blockDim.x) q[i] = 0;
    if (threadIdx.x == 0) shared->damaged = 0;
    __syncthreads();
    u64 streams_bytes = 0;
    for (u32 segment = 0; segment < segments; segment++) streams_bytes += shared->stream_bytes[segment];
    u64 exceptions_at = streams_at + streams_bytes;
    if (exceptions_at + (u64)exceptions * (2 + width) != size) return false;
    sz_words(code);
    if (!code->valid) return false;
    for (u32 token = threadIdx.x; token < SZ_TOKENS; token += blockDim.x) {
        u32 word = code->words[token], length = word >> 16, extra_bits;
        if (length == 0) continue;
        u32 base = sz_meaning(token, &extra_bits);
        u32 kind = token < SZ_RUN_TOKENS ? 0 : 1 + (token - SZ_RUN_TOKENS) % 2;
        for (u32 i = word & 0xffffu; i < 1u << SZ_MAX_LENGTH; i += 1u << length) {
            shared->base[i] = base;
            shared->entry[i] = length | extra_bits << 8 | kind << 16;
        }
    }
    __syncthreads();
    u32 begin = (u32)streams_at;
    for (u32 segment = 0; segment < segments; segment++) {
        // Segments go to different warps first, so that they do not wait for one another.
        if (threadIdx.x == segment % warps() * WARP + segment / warps()) {
            u32 first = segment * SZ_SEGMENT, count = smaller(SZ_SEGMENT, elements - first);
            bool whole = sz_decode(
                shared, block, (u32)size, begin, shared->stream_bytes[segment], q + first, count);
            if (!whole) atomicOr(&shared->damaged, 1u);
        }
        begin += shared->stream_bytes[segment];
    }
    __syncthreads();
    if (shared->damaged) return false;
    for (u32 axis = order; axis-- > 0;) {
        sz_accumulate((u32*)q, elements, setting->stride[axis], setting->extent[axis],
            shared->sums);
    }
    for (u32 i = threadIdx.x; i < elements; i += blockDim.x) {
        store_element(out, i, setting->dtype, __fmul_rn(__int2float_rn(q[i]), setting->step));
    }
    __syncthreads();
    for (u32 i = threadIdx.x; i < exceptions; i += blockDim.x) {
        u32 index = sz_u16(block + exceptions_at + 2 * i);
        if (index >= elements) {
            atomicOr(&shared->damaged, 1u);
            continue;
        }
        const u8* value = block + exceptions_at + 2 * (u64)exceptions + (u64)width * i;
        for (u32 byte = 0; byte < width; byte++) out[index * (u64)width + byte] = value[byte];
    }
    __syncthreads();
    return !shared->damaged;
}

KERNEL sz_decompress(
    const u8* payload, const u64* length, u64 elements, u64 block_elements, u64 dtype, u64 axes,
    u64 extent0, u64 extent1, u64 extent2, u64 bound, u64 step, u64 inverse_step, i32* scratch, u8* out,
    u64* status
) {
    __shared__ SzDecompress shared;
    SzSetting setting = sz_setting(elements, block_elements, dtype, axes, extent0, extent1, extent2,
        bound, step, inverse_step);
    u32 width = width_of(setting.dtype);
    u64 blocks = sz_blocks(&setting);
    i32* q = scratch + blockIdx.x * (u64)SZ_BLOCK;
    for (u64 block = blockIdx.x; block < blocks; block += gridDim.x) {
        u32 count = sz_elements(&setting, block);
        u64 raw = (u64)count * width;
        u8* to = out + block * block_elements * width;
        Found found = find_block(payload, *length, blocks, block, raw);
        bool whole = found.whole;
        if (whole && found.size == raw) copy_bytes(to, found.bytes, raw);
        else if (whole) whole = sz_decompress_block(&setting, found.bytes, found.size, to, count, q, &shared);
        if (!whole && threadIdx.x == 0) report(status, block);
        __syncthreads();
    }
}
