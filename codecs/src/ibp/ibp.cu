// Decompressing invariant bit packing: a lane a chunk, and a warp some rows that lie one behind the
// other. See mod.rs and codec.rs for the bytes. Rows that are far, in host memory, are read over the
// link itself, in whole lines (section 4.4 of the paper). Whoever compresses needs Mask and Bitval of
// all rows first; that is done on the CPU.

// A position in a string of bits is one of words as long as chunks, gone through from the highest bit
// of each down. The word's bits from an offset on, and as many of the next one's as then are missing.
template <class W> DEVICE W ibp_from(W high, W low, u32 offset) {
    constexpr u32 WIDTH = 8 * sizeof(W);
    return (W)(((u32)high << WIDTH | low) << offset >> WIDTH);
}
DEVICE u32 ibp_from(u32 high, u32 low, u32 offset) { return __funnelshift_l(low, high, offset); }
DEVICE u64 ibp_from(u64 high, u64 low, u32 offset) { return high << offset | low >> 1 >> (63 - offset); }

// What a lane does with the chunk of one place in every row that shares Mask and Bitval. Its bits are
// spread in as many steps as a chunk's width has bits, of which step i moves some by 2^i: plan.rs.
template <class W> struct IbpPlan {
    static constexpr u32 WIDTH = 8 * sizeof(W);
    static constexpr u32 STEPS = WIDTH == 8 ? 3 : WIDTH == 16 ? 4 : WIDTH == 32 ? 5 : 6;

    W kept, bitval;
    // The bits that move, where they are when they are apart.
    W moves[STEPS];
    // Bits that a chunk takes that is packed, and one that is not. None takes any behind the row.
    u32 packed, whole;

    __device__ __forceinline__ IbpPlan(const u8* mask, const u8* values, u64 index, bool inside) {
        kept = inside ? (W)~((const W*)mask)[index] : 0;
        bitval = inside ? ((const W*)values)[index] : 0;
        packed = __popcll(kept);
        whole = inside ? WIDTH : 0;
        W together = kept, left_out = (W)(~kept << 1);
        for (u32 step = 0; step < STEPS; step++) {
            // The bits that have an odd number of bits left out below them.
            W odd = left_out;
            for (u32 shift = 1; shift < WIDTH; shift *= 2) odd ^= (W)(odd << shift);
            moves[step] = odd & together;
            together = (W)((together ^ moves[step]) | moves[step] >> (1 << step));
            left_out &= (W)~odd;
        }
    }

    __device__ __forceinline__ u32 count(bool is_packed) const { return is_packed ? packed : whole; }

    // The chunk, from the two words in which its bits begin.
    __device__ __forceinline__ W chunk(W high, W low, u32 bit, bool is_packed) const {
        W bits = (W)(ibp_from(high, low, bit % WIDTH) >> (WIDTH - count(is_packed)) % WIDTH);
        W apart = bits;
        for (u32 step = STEPS; step-- > 0;) {
            apart = (W)((apart & ~moves[step]) | ((W)(apart << (1 << step)) & moves[step]));
        }
        // Where no bit is kept, the bits mean nothing.
        return is_packed ? (W)((apart & kept) | bitval) : bits;
    }
};

// Participation bits of 32 chunks, the first lowest, from a header of so many words.
template <class W, class Words> DEVICE u32 ibp_participation(u64 group, u64 words, Words word) {
    if (sizeof(W) == 8) return (u32)((u64)word(group / 2) >> group % 2 * 32);
    constexpr u32 PARTS = sizeof(W) == 8 ? 1 : 4 / sizeof(W);
    u32 bits = 0;
    for (u32 part = 0; part < PARTS; part++) {
        u64 at = group * PARTS + part;
        if (at < words) bits |= (u32)word(at) << 8 * sizeof(W) * part;
    }
    return bits;
}

// Which of the 32 chunks from one on a row has.
DEVICE u32 ibp_inside(u64 first, u64 chunks) {
    if (first + WARP <= chunks) return ALL_LANES;
    return first < chunks ? (1u << (chunks - first)) - 1 : 0;
}

// Bytes of the participation bits.
template <class W> DEVICE u64 ibp_header(u64 row_bytes) {
    return next_multiple((row_bytes / sizeof(W) + 7) / 8, (u64)sizeof(W));
}

DEVICE u64 ibp_aligned(u64 bytes) { return next_multiple(bytes, (u64)IBP_ALIGN); }

// A payload of packed rows.
struct IbpTable {
    const u8* mask;
    const u8* bitval;
    const u32* lengths;
    const u8* packed;
    // Bytes that are packed.
    u64 room;
    u64 rows, row_bytes;
};

// Where the next chunks of a row are, for all lanes to see.
struct alignas(16) IbpCursor {
    u64 word;
    u32 participation;
    // The first bit in that word, and the first one behind the row's bits as far as it matters.
    u16 bit, limit;
};

// Decompresses chunks of `AT_ONCE` rows from the first on, of which there are `count` in all: one a lane of
// each row. A lane that has the number of one of these rows gets how many bits its chunks took.
template <u32 AT_ONCE, class W>
DEVICE u32 ibp_chunks(
    const IbpPlan<W>& plan, const IbpCursor* cursors, u32 first, u32 count, const W* packed, W* to,
    u64 row_bytes, bool stores
) {
    constexpr u32 WIDTH = 8 * sizeof(W);
    // Sums of 32 chunks have less than 16 bits: those of two rows go together.
    bool is_packed[AT_ONCE + 1];
    u32 before[(AT_ONCE + 1) / 2], bit[AT_ONCE], taken = 0;
    W high[AT_ONCE], low[AT_ONCE];
    is_packed[AT_ONCE] = false;
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) is_packed[j] = cursors[first + j].participation >> lane() & 1;
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j += 2) {
        u32 total;
        before[j / 2] = warp_scan(plan.count(is_packed[j]) | plan.count(is_packed[j + 1]) << 16, &total);
        if (lane() == first + j) taken = total & 0xffff;
        if (lane() == first + j + 1) taken = total >> 16;
    }
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) {
        IbpCursor cursor = cursors[first + j];
        u32 begins = cursor.bit + (before[j / 2] >> j % 2 * 16 & 0xffff);
        u32 bits = plan.count(is_packed[j]);
        const W* from = packed + cursor.word + begins / WIDTH;
        bit[j] = begins % WIDTH;
        bool there = begins + bits <= cursor.limit;
        high[j] = there && bits > 0 ? from[0] : 0;
        low[j] = there && bit[j] + bits > WIDTH ? from[1] : 0;
    }
#pragma unroll
    for (u32 j = 0; j < AT_ONCE; j++) {
        W chunk = plan.chunk(high[j], low[j], bit[j], is_packed[j]);
        if (stores && first + j < count) *to = chunk;
        to = (W*)((u8*)to + row_bytes);
    }
    return taken;
}

// Decompresses rows, of which the first begins so many bytes into what is packed. In turn, a lane
// follows a row, and all lanes spread the next 32 chunks of each row: several rows are on the way at a
// time, and what a lane must know of Mask and Bitval stays in its registers.
template <class W>
DEVICE void ibp_rows(
    const IbpTable* table, u64 row, u64 end, u64 begin, u8* out, IbpCursor* cursors, u64* status
) {
    constexpr u32 CHUNK = sizeof(W), WIDTH = 8 * CHUNK, AT_ONCE = CHUNK == 8 ? 2 : 4;
    u64 chunks = table->row_bytes / CHUNK, header = ibp_header<W>(table->row_bytes);
    const W* packed_words = (const W*)table->packed;
    for (; row < end; row += WARP) {
        u64 own = row + lane(), all;
        bool mine = own < end;
        u64 size = mine ? table->lengths[own] : 0;
        u64 at = begin + warp_scan(size, &all);
        begin += all;
        // A row that is as it was is one of which nothing is packed, without participation bits.
        bool raw = size == table->row_bytes;
        bool whole = mine && at % CHUNK == 0 && size % CHUNK == 0 && at <= table->room
            && size <= table->room - at && (raw || header <= size)
            && (own + 1 < table->rows || at + size == table->room);
        u64 own_header = raw ? 0 : header, position = 0;
        u64 bits = whole ? 8 * (size - own_header) : 0;
        // The participation bits of the next chunks are on the way while these are worked on.
        auto participation_from = [&](u64 first) {
            const W* words = packed_words + at / CHUNK;
            return whole && !raw && first < 8 * header
                ? ibp_participation<W>(first / WARP, header / CHUNK, [&](u64 i) { return words[i]; })
                : 0;
        };
        u32 next = participation_from(0);
        for (u64 first = 0; first < 8 * header; first += WARP) {
            u32 inside = ibp_inside(first, chunks), participation = next;
            next = participation_from(first + WARP);
            // Participation bits behind the last chunk are 0.
            if (participation & ~inside) {
                bits = 0;
                whole = false;
            }
            u64 limit = smaller(bits - position / WIDTH * WIDTH, (u64)0xffff);
            // All lanes are done with the cursors before.
            __syncwarp();
            cursors[lane()] = IbpCursor{
                (at + own_header) / CHUNK + position / WIDTH, participation, (u16)(position % WIDTH),
                (u16)(position < bits ? limit : 0)};
            __syncwarp();
            bool stores = inside >> lane() & 1;
            IbpPlan<W> plan(table->mask, table->bitval, first + lane(), stores);
            u32 taken = 0, count = (u32)smaller((u64)WARP, end - row);
            W* to = (W*)(out + row * table->row_bytes) + first + lane();
            if (count == 1) {
                taken = ibp_chunks<1>(plan, cursors, 0, count, packed_words, to, table->row_bytes, stores);
            } else {
                for (u32 i = 0; i < count; i += AT_ONCE) {
                    u32 of_these = ibp_chunks<AT_ONCE>(
                        plan, cursors, i, count, packed_words, to, table->row_bytes, stores);
                    if (lane() - i < AT_ONCE) taken = of_these;
                    to = (W*)((u8*)to + AT_ONCE * table->row_bytes);
                }
            }
            position += taken;
        }
        if (mine && (!whole || next_multiple(position, (u64)WIDTH) != bits)) report(status, own);
    }
}

// The rows of one of several that share them, as equally as can be.
struct IbpShare {
    u64 begin, end;
};

DEVICE IbpShare ibp_share(u64 begin, u64 end, u64 one, u64 of) {
    u64 each = (end - begin + of - 1) / of;
    return IbpShare{smaller(end, begin + one * each), smaller(end, begin + (one + 1) * each)};
}

// Of what rows from one on take, what the lanes of a warp add up: each some rows.
DEVICE u64 ibp_lengths(const u32* lengths, IbpShare rows) {
    u64 sum = 0;
    for (u64 row = rows.begin + lane(); row < rows.end; row += WARP) sum += lengths[row];
    return sum;
}

// The rows of a warp of the grid.
DEVICE IbpShare ibp_own(u64 rows) {
    IbpShare block = ibp_share(0, rows, blockIdx.x, gridDim.x);
    return ibp_share(block.begin, block.end, warp(), warps());
}

// What the rows of each block of threads take.
KERNEL ibp_sums(const u8* payload, const u64* length, u64 rows, u64 row_bytes, u64* sums) {
    __shared__ u64 shared[WARP];
    u64 table = IBP_KIND + ibp_aligned(2 * row_bytes), total;
    // The tensor as it is has no table; what is cut off is found by who reads it.
    if (*length < table + 4 * rows || *(const u64*)payload == 0) return;
    block_scan(ibp_lengths((const u32*)(payload + table), ibp_own(rows)), shared, &total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

// 16 bytes that are copied at once.
struct alignas(16) IbpSixteen {
    u64 low, high;
};

// After ibp_sums by as many blocks.
KERNEL_OF_128 ibp_decompress(
    const u8* payload, const u64* length, u64 rows, u64 row_bytes, const u64* sums, u8* out,
    u64 bytes, u64* status
) {
    __shared__ IbpCursor cursors[IBP_WARPS * WARP];
    __shared__ u64 shared[WARP];
    const u64* kind = (const u64*)payload;
    u64 all = *length;
    if (all < IBP_KIND || (kind[0] == 0 && all != IBP_KIND + bytes) || kind[1] != 0) {
        return report(status, 0);
    }
    if (kind[0] == 0) {
        u64 threads = (u64)gridDim.x * blockDim.x, thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
        const u8* from = payload + IBP_KIND;
        for (u64 i = thread; i < bytes / 16; i += threads) ((IbpSixteen*)out)[i] = ((const IbpSixteen*)from)[i];
        for (u64 i = bytes / 16 * 16 + thread; i < bytes; i += threads) out[i] = from[i];
        return;
    }
    u64 chunk = kind[0], head = IBP_KIND + ibp_aligned(2 * row_bytes) + ibp_aligned(4 * rows);
    bool known = chunk == 1 || chunk == 2 || chunk == 4 || chunk == 8;
    if (!known || rows == 0 || row_bytes % chunk != 0 || all < head) return report(status, 0);
    const u8* mask = payload + IBP_KIND;
    const u32* lengths = (const u32*)(mask + ibp_aligned(2 * row_bytes));
    IbpTable table = {mask, mask + row_bytes, lengths, payload + head, all - head, rows, row_bytes};
    IbpShare own = ibp_own(rows);
    u64 before = 0, of_blocks, of_warps;
    for (u32 block = threadIdx.x; block < blockIdx.x; block += blockDim.x) before += sums[block];
    block_scan(before, shared, &of_blocks);
    u64 begin = of_blocks + __shfl_sync(ALL_LANES, block_scan(ibp_lengths(lengths, own), shared, &of_warps), 0);
    IbpCursor* of_warp = cursors + warp() * WARP;
    if (chunk == 1) ibp_rows<u8>(&table, own.begin, own.end, begin, out, of_warp, status);
    else if (chunk == 2) ibp_rows<u16>(&table, own.begin, own.end, begin, out, of_warp, status);
    else if (chunk == 4) ibp_rows<u32>(&table, own.begin, own.end, begin, out, of_warp, status);
    else ibp_rows<u64>(&table, own.begin, own.end, begin, out, of_warp, status);
}

// Lines of memory that is far, the last N of which are in shared memory: N times 32 words for a warp.
template <u32 N> struct IbpLines {
    const u32* far;
    u32* kept;
    // The line that comes first, and the one that comes next.
    u64 first, next;

    __device__ __forceinline__ bool has(u64 line) const {
        return first <= line && line < next && line + N >= next;
    }

    // Fetches whole lines, each by one access of the warp, until at least the bytes from one to another
    // are there, and as many more of those before `all` as there is room for: the paper's bounded
    // transfer, in which less than a line behind a row is read. All lanes together. What `other` has is
    // taken from there.
    template <u32 M> __device__ __forceinline__ void fetch(u64 from, u64 to, u64 all, const IbpLines<M>* other) {
        if (next * IBP_LINE >= to) return;
        u64 until = smaller((all + IBP_LINE - 1) / IBP_LINE, from / IBP_LINE + N);
        u32 words[N];
#pragma unroll
        for (u32 i = 0; i < N; i++) {
            u64 line = next + i;
            words[i] = line >= until ? 0
                : other != nullptr && other->has(line) ? other->kept[line % M * WARP + lane()]
                                                       : far[line * WARP + lane()];
        }
        // All lanes are done with what is written over.
        __syncwarp();
#pragma unroll
        for (u32 i = 0; i < N; i++) {
            if (next + i < until) kept[(next + i) % N * WARP + lane()] = words[i];
        }
        next = until;
        __syncwarp();
    }

    // A little-endian word, which lies at a multiple of its bytes.
    template <class W> __device__ __forceinline__ W word(u64 at) const {
        return *(const W*)((const u8*)kept + at % (N * IBP_LINE));
    }
};

// Lines that are kept of a far row's participation bits, and of the words behind them. A lane's 32
// chunks have at most 8 bytes of the ones in at most two lines, and of the others at most 256 bytes
// and a word in at most four.
constexpr u32 IBP_HEADER_LINES = 2, IBP_WORD_LINES = 8;
constexpr u32 IBP_KEPT = (IBP_HEADER_LINES + IBP_WORD_LINES) * WARP;

// Decompresses a row that is far, by a warp. Whether its bits are as many as it says.
template <class W>
DEVICE bool ibp_far(const u8* metadata, u64 row_bytes, const u32* rows, u64 begin, u64 size, u32* kept, u8* out) {
    constexpr u32 CHUNK = sizeof(W), WIDTH = 8 * CHUNK;
    u64 chunks = row_bytes / CHUNK, header = ibp_header<W>(row_bytes), end = begin + size;
    bool raw = size == row_bytes;
    if (!raw && size < header) return false;
    u64 payload = begin + (raw ? 0 : header), bits = 8 * (end - payload), position = 0;
    // A short header comes with the words behind it.
    u64 line = begin / IBP_LINE;
    IbpLines<IBP_HEADER_LINES> headers = {rows, kept, line, line};
    if (header > IBP_LINE) line = payload / IBP_LINE;
    IbpLines<IBP_WORD_LINES> words = {rows, kept + IBP_HEADER_LINES * WARP, line, line};
    words.fetch(line * IBP_LINE, line * IBP_LINE + 1, end, &headers);
    for (u64 first = 0; first < 8 * header; first += WARP) {
        u32 inside = ibp_inside(first, chunks), participation = 0;
        if (!raw) {
            u64 at = begin + first / 8;
            headers.fetch(at, smaller(at + 8, payload), payload, &words);
            participation = ibp_participation<W>(
                first / WARP, header / CHUNK, [&](u64 i) { return headers.word<W>(begin + i * CHUNK); });
        }
        if (participation & ~inside) return false;
        IbpPlan<W> plan(metadata, metadata + row_bytes, first + lane(), inside >> lane() & 1);
        bool is_packed = participation >> lane() & 1;
        u32 count = plan.count(is_packed), total, bit = position % WIDTH + warp_scan(count, &total);
        u64 word = payload + position / WIDTH * CHUNK;
        position += total;
        // The same in all lanes.
        if (position > bits) return false;
        words.fetch(word, payload + (position + WIDTH - 1) / WIDTH * CHUNK, end, &headers);
        u64 from = word + bit / WIDTH * CHUNK;
        // What lies behind the chunk's bits does not matter.
        W high = words.word<W>(from), low = words.word<W>(from + CHUNK);
        if (inside >> lane() & 1) ((W*)out)[first + lane()] = plan.chunk(high, low, bit, is_packed);
    }
    return next_multiple(position, (u64)WIDTH) == bits;
}

// Rows of a table in host memory, by their numbers, one behind the other: a warp a row. `rows` lies at a
// line, and is whole lines. `ends` says where each row ends, which begins where the one before ends, or
// in place at its number times its bytes. `metadata` is Mask and Bitval of each cluster, `clusters` the
// one of each row where there are several.
KERNEL ibp_gather(
    const u32* rows, const u64* ends, u64 count, u64 in_place, u64 row_bytes, u64 chunk,
    const u8* metadata, const u32* clusters, const u64* numbers, u64 lookups, u8* out, u64* status
) {
    __shared__ u64 kept[IBP_WARPS * IBP_KEPT / 2];
    u32* own = (u32*)kept + warp() * IBP_KEPT;
    u64 all_warps = (u64)gridDim.x * warps();
    // What is known of rows before they are read is read for several at a time.
    u64 each = smaller((u64)WARP, (lookups + all_warps - 1) / all_warps);
    for (u64 first = ((u64)blockIdx.x * warps() + warp()) * each; first < lookups; first += all_warps * each) {
        bool mine = lane() < each && first + lane() < lookups;
        u64 row = mine ? numbers[first + lane()] : count;
        bool known = row < count;
        if (mine && !known) report(status, first + lane());
        u64 end = known ? ends[row] : 0;
        u64 begin = !known ? 0 : in_place ? row * row_bytes : row == 0 ? 0 : ends[row - 1];
        u32 cluster = known && clusters ? clusters[row] : 0;
        for (u32 left = __ballot_sync(ALL_LANES, known); left != 0; left &= left - 1) {
            u32 one = __ffs(left) - 1;
            const u8* of_row = metadata + __shfl_sync(ALL_LANES, cluster, one) * 2 * row_bytes;
            u64 at = __shfl_sync(ALL_LANES, begin, one), size = __shfl_sync(ALL_LANES, end, one) - at;
            u8* to = out + (first + one) * row_bytes;
            bool whole = chunk == 1 ? ibp_far<u8>(of_row, row_bytes, rows, at, size, own, to)
                : chunk == 2        ? ibp_far<u16>(of_row, row_bytes, rows, at, size, own, to)
                : chunk == 4        ? ibp_far<u32>(of_row, row_bytes, rows, at, size, own, to)
                                    : ibp_far<u64>(of_row, row_bytes, rows, at, size, own, to);
            if (!whole && lane() == 0) report(status, first + one);
            // The next row's lines are written over this one's.
            __syncwarp();
        }
    }
}
