// Decompressing invariant bit packing: a warp a row, a lane a chunk. See mod.rs and codec.rs for the
// bytes. Whoever compresses needs Mask and Bitval of all rows first; that is done on the CPU.

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

// The next `count` bits of a string that goes through each word from its highest bit down.
DEVICE u64 ibp_bits(const u8* words, u32 bytes, u64 position, u32 count) {
    if (count == 0) return 0;
    u32 width = 8 * bytes;
    u64 ones = ~0ull >> (64 - width);
    u64 first = position / width;
    u32 offset = position % width;
    u64 bits = ibp_word(words + first * bytes, bytes) << offset & ones;
    if (offset + count > width) bits |= ibp_word(words + (first + 1) * bytes, bytes) >> (width - offset);
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

struct IbpTable {
    const u8* mask;
    const u8* bitval;
    const u32* lengths;
    const u8* rows;
    u32 chunk;
    u64 row_bytes;
};

// Decompresses a row. Whether its bits are as many as it says.
DEVICE bool ibp_row(const IbpTable* table, const u8* row, u64 bytes, u8* out) {
    u32 chunk = table->chunk, width = 8 * chunk;
    u64 chunks = table->row_bytes / chunk;
    u64 header = next_multiple((chunks + 7) / 8, (u64)chunk);
    if (header > bytes) return false;
    const u8* payload = row + header;
    u64 payload_bits = (bytes - header) * 8, position = 0;
    bool whole = true;
    for (u64 first = 0; first < chunks; first += WARP) {
        u64 index = first + lane();
        bool inside = index < chunks;
        bool packed = inside && (row[index / 8] >> index % 8 & 1);
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
        value |= ibp_spread(ibp_bits(payload, chunk, begin, count), kept);
        if (inside) ibp_store(out + index * chunk, chunk, value);
    }
    // Participation bits behind the last chunk are 0.
    for (u64 byte = chunks / 8 + lane(); byte < header; byte += WARP) {
        u32 unused = byte == chunks / 8 ? 0xffu << chunks % 8 : 0xffu;
        whole = whole && (row[byte] & unused & 0xffu) == 0;
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
        (const u32*)(payload + IBP_KIND + ibp_aligned(2 * row_bytes)),
        payload + head,
        chunk,
        row_bytes,
    };
    for (u64 row = thread / WARP; row < rows; row += threads / WARP) {
        u64 begin = offsets[row], size = table.lengths[row];
        u64 room = all - head;
        bool whole = begin <= room && size <= room - begin && size % chunk == 0 && begin % chunk == 0;
        if (row + 1 == rows) whole = whole && begin + size == room;
        u8* to = out + row * row_bytes;
        if (whole && size == row_bytes) {
            for (u64 i = lane(); i < row_bytes; i += WARP) to[i] = table.rows[begin + i];
        } else if (whole) {
            whole = ibp_row(&table, table.rows + begin, size, to);
        }
        if (!whole && lane() == 0) report(status, row);
    }
}
