// What activations and gradients are stored as: read as a float, and rounded once when written.
struct Element {
    u16 bits;

    __device__ __forceinline__ operator float() const { return f32_of_bf16(bits); }
    __device__ __forceinline__ Element& operator=(float value) {
        bits = bf16_of_f32(value);
        return *this;
    }
};
