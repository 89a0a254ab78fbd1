// The payload of independent blocks: its table, and finding a block. See payload.rs.
//
// Compressing takes three launches: what each block will take goes into the table; one block of
// threads turns that into where blocks end; then each block is written to its place.

DEVICE u64 aligned(u64 bytes) { return next_multiple(bytes, (u64)PAYLOAD_ALIGN); }
DEVICE u64 table_bytes(u64 blocks) { return aligned(8 * blocks); }

// Turns the table of sizes into one of ends, and says how long the payload is. One block of threads.
KERNEL_OF_ONE_BLOCK payload_ends(u64* table, u64 blocks, u64* length) {
    __shared__ u64 sums[WARP];
    u64 before = 0, end = 0;
    for (u64 first = 0; first < blocks; first += blockDim.x) {
        u64 index = first + threadIdx.x;
        u64 size = index < blocks ? table[index] : 0;
        u64 total;
        u64 begin = before + block_scan(aligned(size), sums, &total);
        if (index < blocks) table[index] = begin + size;
        if (index + 1 == blocks) end = begin + size;
        before += total;
    }
    // The thread of the last block knows the end; of no blocks, the first thread does.
    if (blocks == 0 ? threadIdx.x == 0 : threadIdx.x == (blocks - 1) % blockDim.x) {
        if (blocks % 2 == 1) table[blocks] = 0;
        *length = table_bytes(blocks) + end;
    }
}

// Where a block of the payload begins, what it takes, and zeros behind it.
struct Place {
    u8* bytes;
    u64 size;
};

// The place of a block, once the table holds ends. Fills the gap before the next block.
DEVICE Place place_of(u8* payload, u64 blocks, u64 block) {
    const u64* table = (const u64*)payload;
    u8* data = payload + table_bytes(blocks);
    u64 begin = block == 0 ? 0 : aligned(table[block - 1]);
    u64 end = table[block];
    if (block + 1 < blocks && threadIdx.x < aligned(end) - end) data[end + threadIdx.x] = 0;
    return Place{data + begin, end - begin};
}

// Copies compressed blocks out of slots of one size, or raw ones out of the tensor.
KERNEL payload_place(
    const u8* slots, u64 slot_bytes, const u8* input, u64 bytes, u64 block_bytes, u8* payload
) {
    u64 blocks = (bytes + block_bytes - 1) / block_bytes;
    for (u64 block = blockIdx.x; block < blocks; block += gridDim.x) {
        u64 raw = smaller(block_bytes, bytes - block * block_bytes);
        Place place = place_of(payload, blocks, block);
        const u8* from = place.size == raw ? input + block * block_bytes : slots + block * slot_bytes;
        copy_bytes(place.bytes, from, place.size);
    }
}

// A block of a payload that somebody else may have written.
struct Found {
    const u8* bytes;
    u64 size;
    bool whole;
};

// Finds a block that is `raw` bytes uncompressed. It is not whole where the table cannot be right.
DEVICE Found find_block(const u8* payload, u64 length, u64 blocks, u64 block, u64 raw) {
    Found none = {payload, 0, false};
    u64 table = table_bytes(blocks);
    if (length < table) return none;
    u64 data = length - table;
    const u64* ends = (const u64*)payload;
    u64 before = block == 0 ? 0 : ends[block - 1];
    u64 end = ends[block];
    if (before > data || end > data || aligned(before) > end) return none;
    u64 size = end - aligned(before);
    bool last = block + 1 == blocks;
    return Found{payload + table + aligned(before), size, size <= raw && (!last || end == data)};
}
