// Decompressing LZ4: a warp a block. All lanes read the same tokens; literals and matches are copied
// by all of them together.

// A length that goes on while bytes are 255. Out of range where the block ends in between.
DEVICE u64 lz4_length(const u8* block, u64 size, u64* at, u64 length) {
    u32 more = 255;
    while (more == 255) {
        if (*at >= size) return ~0ull >> 1;
        more = block[(*at)++];
        length += more;
    }
    return length;
}

DEVICE bool lz4_block(const u8* block, u64 size, u8* out, u64 bytes) {
    u64 at = 0, done = 0;
    while (at < size) {
        u32 token = block[at++];
        u64 literals = token >> 4;
        if (literals == 15) literals = lz4_length(block, size, &at, literals);
        if (literals > size - at || literals > bytes - done) return false;
        for (u64 i = lane(); i < literals; i += WARP) out[done + i] = block[at + i];
        at += literals;
        done += literals;
        // The last literals have no match behind them.
        if (at == size) return done == bytes;
        if (size - at < 2) return false;
        u64 offset = block[at] | (u32)block[at + 1] << 8;
        at += 2;
        u64 match = token & 15;
        if (match == 15) match = lz4_length(block, size, &at, match);
        match += 4;
        if (offset == 0 || offset > done || match > bytes - done) return false;
        // What is copied was written by other lanes.
        __syncwarp();
        // A match may reach into itself; then it repeats what was there before.
        for (u64 i = lane(); i < match; i += WARP) {
            out[done + i] = out[done - offset + i % offset];
        }
        done += match;
        __syncwarp();
    }
    return false;
}

KERNEL lz4_decompress(const u8* payload, const u64* length, u64 bytes, u8* out, u64* status) {
    u64 blocks = (bytes + LZ4_BLOCK - 1) / LZ4_BLOCK;
    u64 stride = (u64)gridDim.x * warps();
    for (u64 block = (u64)blockIdx.x * warps() + warp(); block < blocks; block += stride) {
        u64 raw = smaller((u64)LZ4_BLOCK, bytes - block * LZ4_BLOCK);
        u8* to = out + block * LZ4_BLOCK;
        Found found = find_block(payload, *length, blocks, block, raw);
        bool whole = found.whole;
        if (whole && found.size == raw) {
            for (u64 i = lane(); i < raw; i += WARP) to[i] = found.bytes[i];
        } else if (whole) {
            whole = lz4_block(found.bytes, found.size, to, raw);
        }
        if (!whole && lane() == 0) report(status, block);
        __syncwarp();
    }
}
