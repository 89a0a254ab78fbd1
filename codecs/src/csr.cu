// CSR. See csr.rs for the bytes.

struct Csr {
    static constexpr u32 MAPS = CSR_ROW / WARP;

    struct Shared {
        Pack pack;
        u32 damaged;
    };

    DEVICE u32 rows_of(u32 elements) { return (elements + CSR_ROW - 1) / CSR_ROW; }
    DEVICE u32 ends_bytes(u32 elements) { return next_multiple(2 * rows_of(elements), 4u); }

    template <class W> DEVICE u64 size(u32 elements, Shared* shared) {
        u32 count = count_values(&shared->pack);
        return ends_bytes(elements) + next_multiple(count, 4u) + (u64)count * sizeof(W);
    }

    template <class W> DEVICE void write(const W* block, u32 elements, Shared* shared, u8* out) {
        const Pack* pack = &shared->pack;
        u32 count = count_values(&shared->pack);
        u16* ends = (u16*)out;
        u32 rows = rows_of(elements);
        for (u32 row = threadIdx.x; row < ends_bytes(elements) / 2; row += blockDim.x) {
            ends[row] = row < rows ? pack->starts[(row + 1) * MAPS] : 0;
        }
        u8* columns = out + ends_bytes(elements);
        for (u32 map = warp(); map < PACK_MAPS; map += warps()) {
            u32 bits = pack->maps[map];
            if (bits >> lane() & 1) {
                u32 place = pack->starts[map] + __popc(bits & lanes_below());
                columns[place] = (u8)((map * WARP + lane()) % CSR_ROW);
            }
        }
        u32 padded = next_multiple(count, 4u);
        if (threadIdx.x < padded - count) columns[count + threadIdx.x] = 0;
        gather(block, pack, (W*)(columns + padded));
    }

    template <class W>
    DEVICE bool read(const u8* bytes, u64 size, u32 elements, Shared* shared, W* out) {
        u32 head = ends_bytes(elements);
        if (size < head) return false;
        const u16* ends = (const u16*)bytes;
        const u8* columns = bytes + head;
        Pack* pack = &shared->pack;
        for (u32 map = threadIdx.x; map < PACK_MAPS; map += blockDim.x) pack->maps[map] = 0;
        if (threadIdx.x == 0) shared->damaged = 0;
        __syncthreads();
        u32 rows = rows_of(elements);
        for (u32 row = warp(); row < rows; row += warps()) {
            u32 begin = row == 0 ? 0 : ends[row - 1], end = ends[row];
            bool damaged = begin > end || end > size - head;
            for (u32 place = begin + lane(); !damaged && place < end; place += WARP) {
                u32 element = row * CSR_ROW + columns[place];
                if (place > begin && columns[place - 1] >= columns[place]) atomicOr(&shared->damaged, 1u);
                atomicOr(&pack->maps[element / WARP], 1u << element % WARP);
            }
            if (damaged) atomicOr(&shared->damaged, 1u);
        }
        __syncthreads();
        if (shared->damaged || bits_behind(pack, elements)) return false;
        u32 count = count_values(pack);
        u64 before = (u64)head + next_multiple(count, 4u);
        if (size < before || size - before != (u64)count * sizeof(W)) return false;
        scatter((const W*)(bytes + before), pack, out, elements);
        return true;
    }
};

static_assert(PACK_BLOCK % CSR_ROW == 0, "a block is whole rows");
PACK_KERNELS(csr, Csr, u16, 2)
PACK_KERNELS(csr, Csr, u32, 4)
