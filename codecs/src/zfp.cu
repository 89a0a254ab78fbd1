// ZFP at a fixed rate: a thread a block of 4^d values. The bits are those of the C library's stream.

struct ZfpShape {
    u64 x, y, z;
};

template <u32 D> struct ZfpDims {
    static constexpr u32 VALUES = D == 1 ? 4 : D == 2 ? 16 : 64;
    // Whether a bit plane may take more than 32 bits. It takes less than two a value.
    static constexpr bool LONG = D == 3;
};

// The coefficients from the lowest frequency up.
template <u32 D> DEVICE u32 zfp_order(u32 i) {
    constexpr u8 TWO[16] = {0, 1, 4, 5, 2, 8, 6, 9, 3, 12, 10, 7, 13, 11, 14, 15};
    constexpr u8 THREE[64] = {
        0,  1,  4,  16, 20, 17, 5,  2,  8,  32, 21, 6,  18, 24, 9,  33, 36, 3,  12, 48, 22, 25,
        37, 40, 34, 10, 7,  19, 28, 13, 49, 52, 41, 38, 26, 23, 29, 53, 11, 35, 44, 14, 50, 56,
        42, 27, 39, 45, 30, 54, 57, 60, 51, 15, 43, 46, 58, 61, 55, 31, 62, 59, 47, 63};
    return D == 1 ? i : D == 2 ? TWO[i] : THREE[i];
}

// Integers that may overflow, as the C library's do.
DEVICE i32 zfp_add(i32 a, i32 b) { return (i32)((u32)a + (u32)b); }
DEVICE i32 zfp_sub(i32 a, i32 b) { return (i32)((u32)a - (u32)b); }

DEVICE void zfp_forward(i32* p, u32 s) {
    i32 x = p[0], y = p[s], z = p[2 * s], w = p[3 * s];
    x = zfp_add(x, w) >> 1, w = zfp_sub(w, x);
    z = zfp_add(z, y) >> 1, y = zfp_sub(y, z);
    x = zfp_add(x, z) >> 1, z = zfp_sub(z, x);
    w = zfp_add(w, y) >> 1, y = zfp_sub(y, w);
    w = zfp_add(w, y >> 1), y = zfp_sub(y, w >> 1);
    p[0] = x, p[s] = y, p[2 * s] = z, p[3 * s] = w;
}

DEVICE void zfp_inverse(i32* p, u32 s) {
    i32 x = p[0], y = p[s], z = p[2 * s], w = p[3 * s];
    y = zfp_add(y, w >> 1), w = zfp_sub(w, y >> 1);
    y = zfp_add(y, w), w = zfp_sub(w, zfp_sub(y, w));
    z = zfp_add(z, x), x = zfp_sub(x, zfp_sub(z, x));
    y = zfp_add(y, z), z = zfp_sub(z, zfp_sub(y, z));
    w = zfp_add(w, x), x = zfp_sub(x, zfp_sub(w, x));
    p[0] = x, p[s] = y, p[2 * s] = z, p[3 * s] = w;
}

template <u32 D, bool FORWARD> DEVICE void zfp_transform(i32* p) {
    constexpr u32 VALUES = ZfpDims<D>::VALUES;
    for (u32 axis = 0; axis < D; axis++) {
        u32 s = 1u << 2 * (FORWARD ? axis : D - 1 - axis);
        for (u32 i = 0; i < VALUES; i++) {
            if (i / s % 4 != 0) continue;
            if (FORWARD) zfp_forward(p + i, s);
            else zfp_inverse(p + i, s);
        }
    }
}

// Where a block lies, and how far it reaches into the field.
struct ZfpBlock {
    u64 first;
    u32 x, y, z;
};

// The dimensions that a field does not have are 1.
template <u32 D> DEVICE u64 zfp_blocks(ZfpShape n) {
    return (n.x + 3) / 4 * (D > 1 ? (n.y + 3) / 4 : 1) * (D > 2 ? (n.z + 3) / 4 : 1);
}

template <u32 D> DEVICE ZfpBlock zfp_block(ZfpShape n, u64 block) {
    u64 across = (n.x + 3) / 4, down = (n.y + 3) / 4;
    u64 row = D > 1 ? block / across : 0, plane = D > 2 ? row / down : 0;
    u64 x = (block - row * across) * 4, y = (row - plane * down) * 4, z = plane * 4;
    return ZfpBlock{
        (z * n.y + y) * n.x + x,
        (u32)smaller(n.x - x, (u64)4),
        D > 1 ? (u32)smaller(n.y - y, (u64)4) : 1,
        D > 2 ? (u32)smaller(n.z - z, (u64)4) : 1,
    };
}

// Beyond the field, the value inside that the C library puts there.
DEVICE u32 zfp_pad(u32 i, u32 n) { return i < n ? i : i == 3 ? 0 : n - 1; }

// 2^exponent; 0 where that is less than half of what there is.
DEVICE float zfp_power(i32 exponent) {
    if (exponent >= -126) return __uint_as_float((u32)(exponent + 127) << 23);
    return exponent >= -149 ? __uint_as_float(1u << (exponent + 149)) : 0.0f;
}

// A bit of each value, or as many as are known.
template <u32 D> struct ZfpPlane {
    typedef u32 Bits;
};
template <> struct ZfpPlane<3> {
    typedef u64 Bits;
};

DEVICE u32 zfp_low(u32 count) { return (u32)((1ull << count) - 1); }

// Bits of one block. They are gathered in a register and go out a word at a time; the first and the
// last word may be shared with neighbours.
struct ZfpWriter {
    u32* word;
    u64 buffer;
    // Bits in the buffer, of which those before the block are zeros, and bits that the block has left.
    u32 held, left;
    bool shared;

    __device__ __forceinline__ ZfpWriter(u32* words, u64 position, u32 bits)
        : word(words + position / 32), buffer(0), held(position % 32), left(bits), shared(held != 0) {}

    // At most 32 bits, of which those that have no room are left out. Between two calls of `flush`, too.
    __device__ __forceinline__ void put(u32 bits, u32 count) {
        count = smaller(count, left);
        buffer |= (u64)(bits & zfp_low(count)) << held;
        held += count;
        left -= count;
    }

    __device__ __forceinline__ void flush() {
        if (held < 32) return;
        if (shared) atomicOr(word, (u32)buffer);
        else *word = (u32)buffer;
        shared = false;
        word++;
        buffer >>= 32;
        held -= 32;
    }

    // What is behind the last bit is zero already.
    __device__ __forceinline__ void end() {
        flush();
        if ((u32)buffer != 0) atomicOr(word, (u32)buffer);
    }
};

template <u32 D>
DEVICE void zfp_compress(
    const void* input, u32 dtype, ZfpShape n, u32 block_bits, u32* out, u64* status
) {
    constexpr u32 VALUES = ZfpDims<D>::VALUES;
    constexpr bool LONG = ZfpDims<D>::LONG;
    u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 block = (u64)blockIdx.x * blockDim.x + threadIdx.x; block < zfp_blocks<D>(n); block += stride) {
        ZfpBlock at = zfp_block<D>(n, block);
        float values[VALUES];
        u32 largest = 0;
        for (u32 i = 0; i < VALUES; i++) {
            u64 x = zfp_pad(i % 4, at.x), y = zfp_pad(i / 4 % 4, at.y), z = zfp_pad(i / 16, at.z);
            u64 index = at.first + (z * n.y + y) * n.x + x;
            values[i] = load_element(input, index, dtype);
            u32 bits = __float_as_uint(values[i]) & 0x7fffffffu;
            largest = larger(largest, bits);
            if (bits >= 0x7f800000u) report(status, index);
        }
        ZfpWriter writer(out, block * block_bits, block_bits);
        // A block of zeros is one zero bit, and the payload begins as zeros.
        if (largest == 0 || largest >= 0x7f800000u) continue;
        i32 exponent = (i32)(largest >> 23) - 126;
        writer.put(2 * (u32)(exponent + 127) + 1, 9);
        writer.flush();
        i32 coefficients[VALUES];
        for (u32 i = 0; i < VALUES; i++) {
            float value = values[i];
            i32 scale = 30 - exponent;
            // Beyond the largest power of two, in two steps.
            if (scale > 127) {
                value = __fmul_rn(value, zfp_power(64));
                scale -= 64;
            }
            coefficients[i] = __float2int_rz(__fmul_rn(value, zfp_power(scale)));
        }
        zfp_transform<D, true>(coefficients);
        u32 planes[VALUES];
        for (u32 i = 0; i < VALUES; i++) {
            u32 coefficient = (u32)coefficients[zfp_order<D>(i)];
            planes[i] = (coefficient + 0xaaaaaaaau) ^ 0xaaaaaaaau;
        }
        // Bit planes from the highest: those of coefficients known to be significant as they are,
        // then group tests and runs of zeros.
        u32 known = 0;
        for (i32 plane = 31; plane >= 0 && writer.left > 0; plane--) {
            typename ZfpPlane<D>::Bits bits = 0;
#pragma unroll
            for (u32 i = 0; i < VALUES; i++) bits |= (typename ZfpPlane<D>::Bits)(planes[i] >> plane & 1) << i;
            writer.put((u32)bits, smaller(known, 32u));
            if (LONG) {
                writer.flush();
                writer.put((u32)((u64)bits >> 32), known > 32 ? known - 32 : 0);
            }
            bits = known < VALUES ? bits >> known : 0;
            while (known < VALUES) {
                if (LONG) writer.flush();
                writer.put(bits != 0, 1);
                if (bits == 0) break;
                u32 run = __ffsll(bits) - 1, zeros = run;
                if (LONG) writer.flush();
                if (LONG && zeros >= 32) {
                    writer.put(0, 32);
                    writer.flush();
                    zeros -= 32;
                }
                // That the last value has the bit is known without it.
                writer.put(1u << zeros, known + run < VALUES - 1 ? zeros + 1 : zeros);
                bits = bits >> run >> 1;
                known += run + 1;
            }
            writer.flush();
        }
        writer.end();
    }
}

struct ZfpReader {
    // The next word, of which nothing is read that the block has no bit in.
    const u32* word;
    u64 buffer;
    // Bits in the buffer, which may be a neighbour's in the end, and bits that the block has left.
    u32 held, left;

    __device__ __forceinline__ ZfpReader(const u32* words, u64 position, u32 bits)
        : word(words + position / 32 + 1), buffer(words[position / 32] >> position % 32),
          held(32 - position % 32), left(bits) {}

    // Has 32 bits at least, or all that the block has left.
    __device__ __forceinline__ void fill() {
        if (held >= 32 || held >= left) return;
        buffer |= (u64)*word++ << held;
        held += 32;
    }

    __device__ __forceinline__ void skip(u32 count) {
        buffer >>= count;
        held -= count;
        left -= count;
    }

    // At most 32 bits after `fill`; zeros behind the block.
    __device__ __forceinline__ u32 take(u32 count) {
        count = smaller(count, left);
        u32 bits = (u32)buffer & zfp_low(count);
        skip(count);
        return bits;
    }
};

template <u32 D>
DEVICE void zfp_decompress(const u32* payload, u32 dtype, ZfpShape n, u32 block_bits, void* out) {
    constexpr u32 VALUES = ZfpDims<D>::VALUES;
    constexpr bool LONG = ZfpDims<D>::LONG;
    u64 stride = (u64)gridDim.x * blockDim.x;
    for (u64 block = (u64)blockIdx.x * blockDim.x + threadIdx.x; block < zfp_blocks<D>(n); block += stride) {
        ZfpReader reader(payload, block * block_bits, block_bits);
        u32 planes[VALUES];
        for (u32 i = 0; i < VALUES; i++) planes[i] = 0;
        i32 exponent = 0;
        reader.fill();
        if (reader.take(1)) {
            exponent = (i32)reader.take(8) - 127;
            u32 known = 0;
            for (i32 plane = 31; plane >= 0 && reader.left > 0; plane--) {
                typedef typename ZfpPlane<D>::Bits Bits;
                reader.fill();
                Bits bits = reader.take(smaller(known, 32u));
                if (LONG) {
                    reader.fill();
                    bits |= (u64)reader.take(known > 32 ? known - 32 : 0) << 32;
                }
                while (known < VALUES && reader.left > 0) {
                    if (LONG) reader.fill();
                    if (!reader.take(1)) break;
                    u32 ones, most;
                    // The zeros before a one; that of the last value is not there.
                    do {
                        most = smaller(smaller(VALUES - 1 - known, reader.left), 32u);
                        if (LONG) reader.fill();
                        ones = (u32)reader.buffer & zfp_low(most);
                        u32 zeros = ones ? __ffs(ones) - 1 : most;
                        reader.skip(ones ? zeros + 1 : zeros);
                        known += zeros;
                    } while (LONG && ones == 0 && most == 32);
                    bits |= (Bits)1 << known++;
                }
#pragma unroll
                for (u32 i = 0; i < VALUES; i++) planes[i] |= (u32)(bits >> i & 1) << plane;
            }
        }
        i32 coefficients[VALUES];
        for (u32 i = 0; i < VALUES; i++) {
            coefficients[zfp_order<D>(i)] = (i32)((planes[i] ^ 0xaaaaaaaau) - 0xaaaaaaaau);
        }
        zfp_transform<D, false>(coefficients);
        ZfpBlock at = zfp_block<D>(n, block);
        float scale = zfp_power(exponent - 30);
        // Halves are not rounded to infinity.
        float limit = __uint_as_float(dtype == F16 ? 0x477fe000u : 0x7f7f0000u);
        for (u32 i = 0; i < VALUES; i++) {
            u32 x = i % 4, y = i / 4 % 4, z = i / 16;
            if (x >= at.x || y >= at.y || z >= at.z) continue;
            float value = __fmul_rn(scale, __int2float_rn(coefficients[i]));
            if (dtype != F32) value = value > limit ? limit : value < -limit ? -limit : value;
            store_element(out, at.first + ((u64)z * n.y + y) * n.x + x, dtype, value);
        }
    }
}

// Zeros, which the bits of blocks are put into, and how long the payload is.
KERNEL zfp_clear(u32* payload, u64 bytes, u64* length) {
    u64 stride = (u64)gridDim.x * blockDim.x;
    u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    for (u64 word = first; word < bytes / 4; word += stride) payload[word] = 0;
    if (first == 0) *length = bytes;
}

#define ZFP_KERNELS(D)                                                                             \
    KERNEL zfp_compress_##D(                                                                       \
        const void* input, u64 dtype, u64 x, u64 y, u64 z, u64 block_bits, u32* out, u64* status   \
    ) {                                                                                            \
        zfp_compress<D>(input, (u32)dtype, ZfpShape{x, y, z}, (u32)block_bits, out, status);       \
    }                                                                                              \
    KERNEL zfp_decompress_##D(                                                                     \
        const u32* payload, const u64* length, u64 bytes, u64 dtype, u64 x, u64 y, u64 z,          \
        u64 block_bits, void* out, u64* status                                                     \
    ) {                                                                                            \
        if (*length == bytes) {                                                                    \
            zfp_decompress<D>(payload, (u32)dtype, ZfpShape{x, y, z}, (u32)block_bits, out);       \
        } else {                                                                                   \
            report(status, 0);                                                                     \
        }                                                                                          \
    }

ZFP_KERNELS(1)
ZFP_KERNELS(2)
ZFP_KERNELS(3)
