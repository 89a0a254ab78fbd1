// Elements of 16 bits (bfloat16) to floats, which is exact, and back, to nearest and ties to even.

KERNEL widen(u64 count, const u16* from, float* to) {
    EACH(i, count) to[i] = f32_of_bf16(from[i]);
}

KERNEL narrow(u64 count, const float* from, u16* to) {
    EACH(i, count) to[i] = bf16_of_f32(from[i]);
}
