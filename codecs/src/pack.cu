// Bitmaps of non-zeros, gathering and scattering: what ZVC, RLE and CSR have in common. See pack.rs.

constexpr u32 PACK_MAPS = PACK_BLOCK / PACK_LANES;
static_assert(PACK_LANES == WARP, "a warp makes a bitmap");

// Shared by a block of threads that works on a block of the tensor.
struct Pack {
    // Bit i of bitmap j says that element 32 j + i has a bit set.
    u32 maps[PACK_MAPS];
    // Exclusive sums of counts by bitmap, and their total.
    u32 starts[PACK_MAPS + 1];
};

template <class W> DEVICE void make_maps(const W* block, u32 elements, Pack* pack) {
    for (u32 map = warp(); map < PACK_MAPS; map += warps()) {
        u32 index = map * WARP + lane();
        u32 bits = __ballot_sync(ALL_LANES, index < elements && block[index] != 0);
        if (lane() == 0) pack->maps[map] = bits;
    }
    __syncthreads();
}

// Turns the counts in `starts` into exclusive sums. Returns the total.
DEVICE u32 sum_starts(Pack* pack) {
    __syncthreads();
    if (warp() == 0) {
        u32 before = 0;
        for (u32 first = 0; first < PACK_MAPS; first += WARP) {
            u32 total;
            u32 start = before + warp_scan(pack->starts[first + lane()], &total);
            pack->starts[first + lane()] = start;
            before += total;
        }
        if (lane() == 0) pack->starts[PACK_MAPS] = before;
    }
    __syncthreads();
    return pack->starts[PACK_MAPS];
}

// Where the values of each bitmap begin. Returns how many there are.
DEVICE u32 count_values(Pack* pack) {
    for (u32 map = threadIdx.x; map < PACK_MAPS; map += blockDim.x) {
        pack->starts[map] = __popc(pack->maps[map]);
    }
    return sum_starts(pack);
}

// Writes the non-zeros, after count_values.
template <class W> DEVICE void gather(const W* block, const Pack* pack, W* values) {
    for (u32 map = warp(); map < PACK_MAPS; map += warps()) {
        u32 bits = pack->maps[map];
        if (bits >> lane() & 1) {
            values[pack->starts[map] + __popc(bits & lanes_below())] = block[map * WARP + lane()];
        }
    }
}

// Writes all elements from the non-zeros, after count_values.
template <class W> DEVICE void scatter(const W* values, const Pack* pack, W* block, u32 elements) {
    for (u32 map = warp(); map * WARP < elements; map += warps()) {
        u32 bits = pack->maps[map], index = map * WARP + lane();
        W value = 0;
        if (bits >> lane() & 1) value = values[pack->starts[map] + __popc(bits & lanes_below())];
        if (index < elements) block[index] = value;
    }
}

// Whether there are bits behind the last element. The same in all threads.
DEVICE bool bits_behind(const Pack* pack, u32 elements) {
    u32 behind = 0;
    for (u32 map = elements / WARP; map < PACK_MAPS; map++) {
        u32 first = map * WARP < elements ? elements % WARP : 0;
        behind |= pack->maps[map] >> first;
    }
    return behind != 0;
}

// Elements of a block of a tensor of so many.
DEVICE u32 elements_of(u64 elements, u64 block) {
    return (u32)smaller((u64)PACK_BLOCK, elements - block * PACK_BLOCK);
}

DEVICE u64 blocks_of(u64 elements) { return (elements + PACK_BLOCK - 1) / PACK_BLOCK; }

// The three kernels of a codec that has, for words W of a block,
// - `Codec::size<W>(elements, shared)`: bytes that it takes, after make_maps;
// - `Codec::write<W>(block, elements, shared, out)`: writes them, after make_maps;
// - `Codec::read<W>(bytes, size, elements, shared, out)`: the inverse, false where it is damaged.
#define PACK_KERNELS(name, Codec, W, suffix)                                                       \
    KERNEL name##_sizes_##suffix(const W* input, u64 elements, u64* table) {                       \
        __shared__ Codec::Shared shared;                                                           \
        for (u64 block = blockIdx.x; block < blocks_of(elements); block += gridDim.x) {            \
            u32 count = elements_of(elements, block);                                              \
            make_maps(input + block * PACK_BLOCK, count, &shared.pack);                            \
            u64 size = Codec::size<W>(count, &shared);                                             \
            if (threadIdx.x == 0) table[block] = smaller(size, (u64)count * sizeof(W));            \
            __syncthreads();                                                                       \
        }                                                                                          \
    }                                                                                              \
    KERNEL name##_compress_##suffix(const W* input, u64 elements, u8* payload) {                   \
        __shared__ Codec::Shared shared;                                                           \
        for (u64 block = blockIdx.x; block < blocks_of(elements); block += gridDim.x) {            \
            u32 count = elements_of(elements, block);                                              \
            const W* words = input + block * PACK_BLOCK;                                           \
            Place place = place_of(payload, blocks_of(elements), block);                           \
            if (place.size == (u64)count * sizeof(W)) {                                            \
                copy_bytes(place.bytes, (const u8*)words, place.size);                             \
            } else {                                                                               \
                make_maps(words, count, &shared.pack);                                             \
                Codec::write<W>(words, count, &shared, place.bytes);                               \
            }                                                                                      \
            __syncthreads();                                                                       \
        }                                                                                          \
    }                                                                                              \
    KERNEL name##_decompress_##suffix(                                                             \
        const u8* payload, const u64* length, u64 elements, W* out, u64* status                    \
    ) {                                                                                            \
        __shared__ Codec::Shared shared;                                                           \
        for (u64 block = blockIdx.x; block < blocks_of(elements); block += gridDim.x) {            \
            u32 count = elements_of(elements, block);                                              \
            u64 raw = (u64)count * sizeof(W);                                                      \
            W* words = out + block * PACK_BLOCK;                                                   \
            Found found = find_block(payload, *length, blocks_of(elements), block, raw);           \
            bool whole = found.whole;                                                              \
            if (whole && found.size == raw) {                                                      \
                copy_bytes((u8*)words, found.bytes, raw);                                          \
            } else if (whole) {                                                                    \
                whole = Codec::read<W>(found.bytes, found.size, count, &shared, words);            \
            }                                                                                      \
            if (!whole && threadIdx.x == 0) report(status, block);                                 \
            __syncthreads();                                                                       \
        }                                                                                          \
    }
