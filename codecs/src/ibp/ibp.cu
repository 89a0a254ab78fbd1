// Decompressing invariant bit packing: a warp a row, a lane a chunk. See mod.rs and codec.rs for the
// bytes. Rows that are far, in host memory, are read over the link itself, in whole lines (section 4.4 of
// the paper). Whoever compresses needs Mask and Bitval of all rows first; that is done on the CPU.

// A little-endian word of 1, 2, 4 or 8 bytes.
DEVICE u64 ibp_word(const u8* at, u32 bytes) {
    if (bytes == 1) return *at;
    if (bytes == 2) return *(const u16*)at;
    return bytes == 4 ? *(const u32*)at : *(const u64*)at;
}

DEVICE void ibp_store(u8* at, u32 bytes, u64 word) {
    if (bytes == 1) *at = (u8)word;
    else if (bytes == 2) *(u16*)at = (u16)word;
    else if (bytes == 4) *(u32*)at = (u32)word;
    else *(u64*)at = word;
}

// A row that can be read as it lies.
struct IbpNear {
    const u8* row;

    __device__ __forceinline__ void need_header(u64) {}
    __device__ __forceinline__ void need(u64) {}
    __device__ __forceinline__ u32 header_byte(u64 at) { return row[at]; }
    __device__ __forceinline__ u64 word(u64 at, u32 bytes) { return ibp_word(row + at, bytes); }
};

// The next `count` bits of a string that begins at a byte of the row and goes through each word from
// its highest bit down.
template <class Row> DEVICE u64 ibp_bits(Row* row, u64 begin, u32 bytes, u64 position, u32 count) {
    if (count == 0) return 0;
    u32 width = 8 * bytes;
    u64 ones = ~0ull >> (64 - width);
    u64 first = position / width;
    u32 offset = position % width;
    u64 bits = row->word(begin + first * bytes, bytes) << offset & ones;
    if (offset + count > width) bits |= row->word(begin + (first + 1) * bytes, bytes) >> (width - offset);
    return bits >> (width - count);
}

// Puts the low bits of a number where `places` has ones, a run of ones at a time.
DEVICE u64 ibp_spread(u64 bits, u64 places) {
    u64 spread = 0;
    while (places != 0) {
        u32 begin = __ffsll(places) - 1;
        u64 shifted = places >> begin;
        u32 run = ~shifted == 0 ? 64 : __ffsll(~shifted) - 1;
        u64 ones = ~0ull >> (64 - run);
        spread |= (bits & ones) << begin;
        places &= ~(ones << begin);
        bits = run == 64 ? 0 : bits >> run;
    }
    return spread;
}

// What is the same for all rows, or for those of a cluster.
struct IbpTable {
    const u8* mask;
    const u8* bitval;
    u32 chunk;
    u64 row_bytes;
};

DEVICE u64 ibp_header(const IbpTable* table) {
    u64 chunks = table->row_bytes / table->chunk;
    return next_multiple((chunks + 7) / 8, (u64)table->chunk);
}

// Decompresses a row. Whether its bits are as many as it says.
template <class Row> DEVICE bool ibp_row(const IbpTable* table, Row* row, u64 bytes, u8* out) {
    u32 chunk = table->chunk, width = 8 * chunk;
    u64 chunks = table->row_bytes / chunk, header = ibp_header(table);
    if (header > bytes) return false;
    u64 payload_bits = (bytes - header) * 8, position = 0;
    bool whole = true;
    for (u64 first = 0; first < 8 * header; first += WARP) {
        u64 index = first + lane();
        row->need_header(smaller(first / 8 + WARP / 8, header));
        bool inside = index < chunks;
        bool packed = index < 8 * header && (row->header_byte(index / 8) >> index % 8 & 1);
        // Participation bits behind the last chunk are 0.
        whole = whole && (inside || !packed);
        packed = packed && inside;
        u64 ones = ~0ull >> (64 - width);
        u64 kept = inside ? ones : 0;
        u64 value = 0;
        if (packed) {
            kept = ~ibp_word(table->mask + index * chunk, chunk) & ones;
            value = ibp_word(table->bitval + index * chunk, chunk);
        }
        u32 total;
        u32 count = __popcll(kept);
        u64 begin = position + warp_scan(count, &total);
        position += total;
        // The same in all lanes.
        if (position > payload_bits) return false;
        row->need(header + (position + width - 1) / width * chunk);
        value |= ibp_spread(ibp_bits(row, header, chunk, begin, count), kept);
        if (inside) ibp_store(out + index * chunk, chunk, value);
    }
    u64 words = (position + width - 1) / width;
    whole = whole && header + words * chunk == bytes;
    return __ballot_sync(ALL_LANES, !whole) == 0;
}

DEVICE u64 ibp_aligned(u64 bytes) { return next_multiple(bytes, (u64)IBP_ALIGN); }

// Where rows begin: the sums of what those before take. One block of threads.
KERNEL_OF_ONE_BLOCK ibp_offsets(const u8* payload, const u64* length, u64 rows, u64 row_bytes, u64* offsets) {
    __shared__ u64 sums[WARP];
    u64 table = IBP_KIND + ibp_aligned(2 * row_bytes);
    // The tensor as it is has no table; what is cut off is found by who reads it.
    if (*length < table + 4 * rows || *(const u64*)payload == 0) return;
    const u32* lengths = (const u32*)(payload + table);
    u64 before = 0;
    for (u64 first = 0; first < rows; first += blockDim.x) {
        u64 row = first + threadIdx.x, total;
        u64 bytes = row < rows ? lengths[row] : 0;
        u64 begin = before + block_scan(bytes, sums, &total);
        if (row < rows) offsets[row] = begin;
        before += total;
    }
}

KERNEL ibp_decompress(
    const u8* payload, const u64* length, u64 rows, u64 row_bytes, const u64* offsets, u8* out,
    u64 bytes, u64* status
) {
    const u64* kind = (const u64*)payload;
    u64 all = *length;
    if (all < IBP_KIND || (kind[0] == 0 && all != IBP_KIND + bytes) || kind[1] != 0) {
        return report(status, 0);
    }
    u64 threads = (u64)gridDim.x * blockDim.x;
    u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (kind[0] == 0) {
        for (u64 i = thread; i < bytes; i += threads) out[i] = payload[IBP_KIND + i];
        return;
    }
    u32 chunk = (u32)kind[0];
    bool known = kind[0] == 1 || kind[0] == 2 || kind[0] == 4 || kind[0] == 8;
    u64 head = IBP_KIND + ibp_aligned(2 * row_bytes) + ibp_aligned(4 * rows);
    if (!known || rows == 0 || row_bytes % chunk != 0 || all < head) return report(status, 0);
    IbpTable table = {
        payload + IBP_KIND,
        payload + IBP_KIND + row_bytes,
        chunk,
        row_bytes,
    };
    const u32* lengths = (const u32*)(payload + IBP_KIND + ibp_aligned(2 * row_bytes));
    const u8* packed = payload + head;
    for (u64 row = thread / WARP; row < rows; row += threads / WARP) {
        u64 begin = offsets[row], size = lengths[row];
        u64 room = all - head;
        bool whole = begin <= room && size <= room - begin && size % chunk == 0 && begin % chunk == 0;
        if (row + 1 == rows) whole = whole && begin + size == room;
        u8* to = out + row * row_bytes;
        if (whole && size == row_bytes) {
            for (u64 i = lane(); i < row_bytes; i += WARP) to[i] = packed[begin + i];
        } else if (whole) {
            IbpNear near = {packed + begin};
            whole = ibp_row(&table, &near, size, to);
        }
        if (!whole && lane() == 0) report(status, row);
    }
}

// Lines of memory that is far, the last N of which are in shared memory: N times 32 words for a warp.
template <u32 N> struct IbpLines {
    const u8* far;
    u32* kept;
    // The line that comes next.
    u64 next;

    __device__ __forceinline__ bool has(u64 line) { return line < next && line + N >= next; }

    // Fetches whole lines, each by one access of the warp, until at least `end` bytes are there, and
    // less than a line more: the paper's bounded transfer. All lanes together. What `other` has is taken
    // from there.
    template <u32 M> __device__ __forceinline__ void fetch(u64 end, IbpLines<M>* other) {
        if (next * IBP_LINE >= end) return;
        // All lanes are done with what is written over.
        __syncwarp();
        for (; next * IBP_LINE < end; next++) {
            u32 word = other != nullptr && other->has(next)
                ? other->kept[next % M * WARP + lane()]
                : ((const u32*)(far + next * IBP_LINE))[lane()];
            kept[next % N * WARP + lane()] = word;
        }
        __syncwarp();
    }

    // A little-endian word, which lies at a multiple of its bytes.
    __device__ __forceinline__ u64 word(u64 at, u32 bytes) {
        u32 low = kept[at / IBP_LINE % N * WARP + at % IBP_LINE / 4];
        if (bytes == 8) return (u64)kept[at / IBP_LINE % N * WARP + at % IBP_LINE / 4 + 1] << 32 | low;
        u32 shifted = low >> at % 4 * 8;
        return bytes == 4 ? low : bytes == 2 ? shifted & 0xffffu : shifted & 0xffu;
    }
};

// A row of a table that is far. The lanes read 32 chunks at a time: the bits that say which are packed
// lie in at most two lines, and what is left of them, at most 256 bytes and a word, in at most four.
struct IbpFar {
    u64 begin;
    IbpLines<2> header;
    IbpLines<4> words;

    __device__ __forceinline__ void need_header(u64 end) {
        header.fetch(begin + end, (IbpLines<4>*)nullptr);
    }
    __device__ __forceinline__ void need(u64 end) { words.fetch(begin + end, &header); }
    __device__ __forceinline__ u32 header_byte(u64 at) { return (u32)header.word(begin + at, 1); }
    __device__ __forceinline__ u64 word(u64 at, u32 bytes) { return words.word(begin + at, bytes); }
};

// Rows of a table in host memory, by their numbers, one behind the other: a warp a row. `rows` lies at a
// line, and is whole lines. `ends` says where each row ends, which begins where the one before ends, or
// in place at its number times its bytes. `metadata` is Mask and Bitval of each cluster, `clusters` the
// one of each row where there are several.
KERNEL ibp_gather(
    const u8* rows, const u64* ends, u64 count, u64 in_place, u64 row_bytes, u64 chunk,
    const u8* metadata, const u32* clusters, const u64* numbers, u64 lookups, u8* out, u64* status
) {
    __shared__ u32 kept[IBP_WARPS * 6 * WARP];
    u32* own = kept + warp() * 6 * WARP;
    u64 all_warps = (u64)gridDim.x * warps();
    for (u64 i = (u64)blockIdx.x * warps() + warp(); i < lookups; i += all_warps) {
        u64 row = numbers[i];
        bool whole = row < count;
        if (whole) {
            u64 begin = in_place ? row * row_bytes : row == 0 ? 0 : ends[row - 1];
            u64 end = ends[row];
            u8* to = out + i * row_bytes;
            IbpFar far = {begin, {rows, own, begin / IBP_LINE}, {rows, own + 2 * WARP, begin / IBP_LINE}};
            const u8* own_metadata = metadata + (clusters ? clusters[row] : 0) * 2 * row_bytes;
            IbpTable table = {own_metadata, own_metadata + row_bytes, (u32)chunk, row_bytes};
            if (end - begin == row_bytes) {
                for (u64 at = begin; at < end; at = (at / IBP_LINE + 1) * IBP_LINE) {
                    u64 until = smaller(end, (at / IBP_LINE + 1) * IBP_LINE);
                    far.need(until - begin);
                    for (u64 byte = at + lane(); byte < until; byte += WARP) {
                        to[byte - begin] = (u8)far.word(byte - begin, 1);
                    }
                }
            } else {
                // Lines that have nothing but bits of the header are not of the words.
                far.words.next = (begin + ibp_header(&table)) / IBP_LINE;
                whole = ibp_row(&table, &far, end - begin, to);
            }
        }
        if (!whole && lane() == 0) report(status, i);
    }
}
