// RLE. See rle.rs for the bytes.

struct Rle {
    struct Shared {
        Pack pack;
        u32 sums[WARP];
        // Where runs end.
        u16 edges[PACK_BLOCK + 1];
        u32 damaged;
    };

    DEVICE u32 head_bytes(u32 runs) { return 4 + next_multiple(2 * runs, 4u); }

    // The elements of a bitmap that differ from the one before, which for the first is a zero.
    DEVICE u32 changes(const Pack* pack, u32 map) {
        u32 before = map == 0 ? 0 : pack->maps[map - 1] >> (WARP - 1);
        return pack->maps[map] ^ (pack->maps[map] << 1 | before);
    }

    // How many runs there are, and where those of each bitmap begin.
    DEVICE u32 count_runs(u32 elements, Pack* pack) {
        u32 used = (elements + WARP - 1) / WARP;
        for (u32 map = threadIdx.x; map < PACK_MAPS; map += blockDim.x) {
            pack->starts[map] = map < used ? __popc(changes(pack, map)) : 0;
        }
        u32 edges = sum_starts(pack);
        // Behind the last element the bitmap is zero: that change is the end of the block.
        u32 last = elements - 1;
        bool ended = elements % WARP != 0 && (pack->maps[last / WARP] >> last % WARP & 1);
        return ended ? edges : edges + 1;
    }

    template <class W> DEVICE u64 size(u32 elements, Shared* shared) {
        u32 runs = count_runs(elements, &shared->pack);
        __syncthreads();
        return head_bytes(runs) + (u64)count_values(&shared->pack) * sizeof(W);
    }

    template <class W> DEVICE void write(const W* block, u32 elements, Shared* shared, u8* out) {
        u32 runs = count_runs(elements, &shared->pack);
        u32 used = (elements + WARP - 1) / WARP;
        for (u32 map = threadIdx.x; map < used; map += blockDim.x) {
            u32 place = shared->pack.starts[map];
            for (u32 rest = changes(&shared->pack, map); rest != 0; rest &= rest - 1) {
                shared->edges[place++] = (u16)(map * WARP + __ffs(rest) - 1);
            }
        }
        if (threadIdx.x == 0 && shared->pack.starts[PACK_MAPS] < runs) {
            shared->edges[runs - 1] = (u16)elements;
        }
        __syncthreads();
        if (threadIdx.x == 0) *(u32*)out = runs;
        u16* lengths = (u16*)(out + 4);
        for (u32 run = threadIdx.x; run < next_multiple(runs, 2u); run += blockDim.x) {
            u32 before = run == 0 ? 0 : shared->edges[run - 1];
            lengths[run] = run < runs ? shared->edges[run] - before : 0;
        }
        count_values(&shared->pack);
        gather(block, &shared->pack, (W*)(out + head_bytes(runs)));
    }

    template <class W>
    DEVICE bool read(const u8* bytes, u64 size, u32 elements, Shared* shared, W* out) {
        u32 runs = size < 4 ? 0 : *(const u32*)bytes;
        if (runs > elements + 1 || size < head_bytes(runs)) return false;
        const u16* lengths = (const u16*)(bytes + 4);
        Pack* pack = &shared->pack;
        for (u32 map = threadIdx.x; map < PACK_MAPS; map += blockDim.x) pack->maps[map] = 0;
        if (threadIdx.x == 0) shared->damaged = 0;
        __syncthreads();
        // One bit at each edge.
        u32 edge = 0;
        for (u32 first = 0; first < runs; first += blockDim.x) {
            u32 run = first + threadIdx.x, total;
            u32 length = run < runs ? lengths[run] : 0;
            u32 end = edge + block_scan(length, shared->sums, &total) + length;
            if (run < runs && ((length == 0 && run > 0) || end > elements)) {
                atomicOr(&shared->damaged, 1u);
            } else if (run < runs && end < elements) {
                atomicOr(&pack->maps[end / WARP], 1u << end % WARP);
            }
            edge += total;
        }
        __syncthreads();
        if (shared->damaged || edge != elements) return false;
        // Then each element is the exclusive or of all edges up to it.
        count_values(pack);
        for (u32 map = threadIdx.x; map < PACK_MAPS; map += blockDim.x) {
            u32 bits = pack->maps[map];
            for (u32 shift = 1; shift < WARP; shift *= 2) bits ^= bits << shift;
            if (pack->starts[map] & 1) bits = ~bits;
            // A run of non-zeros that ends the block has no edge that would end it.
            u32 begin = map * WARP;
            if (begin + WARP > elements) bits &= begin < elements ? (1u << elements % WARP) - 1 : 0;
            pack->maps[map] = bits;
        }
        __syncthreads();
        u32 count = count_values(pack);
        if (size - head_bytes(runs) != (u64)count * sizeof(W)) return false;
        scatter((const W*)(bytes + head_bytes(runs)), pack, out, elements);
        return true;
    }
};

PACK_KERNELS(rle, Rle, u16, 2)
PACK_KERNELS(rle, Rle, u32, 4)
