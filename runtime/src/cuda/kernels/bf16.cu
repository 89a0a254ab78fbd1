// Elements of 16 bits (bfloat16) to floats, which is exact, and back, to nearest and ties to even.

KERNEL widen(u64 count, const u16* from, float* to) {
    map(count, to, [](u16 half) { return f32_of_bf16(half); }, from);
}

// A float as three numbers of 16 bits that add up to it, one matrix `apart` behind the other: what the upper
// half leaves out is a float again, with eight significant bits less. Nothing is left of what is no number.
KERNEL take_apart(u64 count, u64 apart, const float* from, u16* to) {
    EACH(i, count) {
        float rest = from[i];
        for (u64 part = 0; part < 3; part++) {
            u32 bits = __float_as_uint(rest);
            bool is_finite = (bits & 0x7f800000u) != 0x7f800000u;
            u16 upper = is_finite ? (u16)(bits >> 16) : bf16_of_f32(rest);
            to[part * apart + i] = upper;
            rest = is_finite ? rest - f32_of_bf16(upper) : 0.0f;
        }
    }
}

KERNEL narrow(u64 count, const float* from, u16* to) {
    map(count, to, [](float value) { return bf16_of_f32(value); }, from);
}
