// How many values of a tensor are zero, of either sign: floats of 32 bits, or of 16 where `bytes` is 2.
// Whole numbers: their sum has no order.
KERNEL count_zeros(const void* values, u64 elements, u64 bytes, u64* zeros) {
    struct alignas(16) Words {
        u32 of[4];
    };
    u64 stride = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 own = 0, all, lines = (u64)values % sizeof(Words) == 0 ? elements * bytes / sizeof(Words) : 0;
    for (u64 i = first; i < lines; i += stride) {
        Words words = ((const Words*)values)[i];
        for (u32 k = 0; k < 4; k++) {
            u32 word = words.of[k];
            own += bytes == 2 ? ((word & 0x7fff) == 0) + ((word & 0x7fff0000) == 0) : (word & 0x7fffffff) == 0;
        }
    }
    for (u64 i = lines * sizeof(Words) / bytes + first; i < elements; i += stride) {
        own += bytes == 2 ? (((const u16*)values)[i] & 0x7fff) == 0 : ((const float*)values)[i] == 0.0f;
    }
    warp_scan(own, &all);
    if (lane() == 0 && all != 0) atomicAdd(zeros, all);
}
