// Elements of 16 bits (bfloat16) to floats, which is exact, and back, to nearest and ties to even.

KERNEL widen(u64 count, const u16* from, float* to) {
    EACH(i, count) to[i] = __uint_as_float((u32)from[i] << 16);
}

KERNEL narrow(u64 count, const float* from, u16* to) {
    EACH(i, count) {
        u32 bits = __float_as_uint(from[i]);
        // What is no number stays none, although its last digits go.
        bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
        u32 up = 0x7fffu + (bits >> 16 & 1u);
        to[i] = (u16)(is_nan ? bits >> 16 | 0x40u : (bits + up) >> 16);
    }
}
