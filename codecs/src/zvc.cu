// ZVC. See zvc.rs for the bytes.

struct Zvc {
    struct Shared {
        Pack pack;
    };

    DEVICE u32 head_bytes(u32 elements) { return 4 * ((elements + WARP - 1) / WARP); }

    template <class W> DEVICE u64 size(u32 elements, Shared* shared) {
        return head_bytes(elements) + (u64)count_values(&shared->pack) * sizeof(W);
    }

    template <class W> DEVICE void write(const W* block, u32 elements, Shared* shared, u8* out) {
        count_values(&shared->pack);
        u32 head = head_bytes(elements);
        for (u32 map = threadIdx.x; map < head / 4; map += blockDim.x) {
            ((u32*)out)[map] = shared->pack.maps[map];
        }
        gather(block, &shared->pack, (W*)(out + head));
    }

    template <class W>
    DEVICE bool read(const u8* bytes, u64 size, u32 elements, Shared* shared, W* out) {
        u32 head = head_bytes(elements);
        if (size < head) return false;
        for (u32 map = threadIdx.x; map < PACK_MAPS; map += blockDim.x) {
            shared->pack.maps[map] = map < head / 4 ? ((const u32*)bytes)[map] : 0;
        }
        __syncthreads();
        u32 count = count_values(&shared->pack);
        if (size - head != (u64)count * sizeof(W) || bits_behind(&shared->pack, elements)) return false;
        scatter((const W*)(bytes + head), &shared->pack, out, elements);
        return true;
    }
};

PACK_KERNELS(zvc, Zvc, u16, 2)
PACK_KERNELS(zvc, Zvc, u32, 4)
