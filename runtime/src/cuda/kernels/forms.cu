// Small forms of which the size is known on the device alone. What fits into what was reserved is
// kept; what does not is not, and the tensor itself goes into host memory instead, which the device
// writes and reads through its pinned pages. So nothing waits for the host to look.

// What a thread moves at once.
struct alignas(16) Line {
    u64 low, high;
};

DEVICE void copy_by_all(u8* to, const u8* from, u64 bytes) {
    u64 stride = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    u64 lines = ((u64)to | (u64)from) % sizeof(Line) == 0 ? bytes / sizeof(Line) : 0;
    for (u64 i = first; i < lines; i += stride) ((Line*)to)[i] = ((const Line*)from)[i];
    for (u64 i = sizeof(Line) * lines + first; i < bytes; i += stride) to[i] = from[i];
}

DEVICE bool is_first() { return blockIdx.x == 0 && threadIdx.x == 0; }

// Before a codec: nothing is wrong yet.
KERNEL form_begin(u64* own_status) {
    if (is_first()) *own_status = ~0ull;
}

// After a codec: what it found wrong is said with the number of the action.
KERNEL form_check(const u64* own_status, u64 number, u64* status) {
    if (is_first() && *own_status != ~0ull) report(status, number);
}

// Keeps a payload in the room that is reserved for it, or puts the tensor into host memory. `shown`
// is the length for those that come after: 0 where nothing was kept.
KERNEL form_keep(
    const u8* payload, const u64* length, const u8* tensor, u64 bytes, u64 reserved, u8* small, u8* host,
    u64* shown, u64* fallbacks
) {
    bool fits = *length <= reserved;
    if (fits) copy_by_all(small, payload, *length);
    else copy_by_all(host, tensor, bytes);
    if (is_first()) {
        *shown = fits ? *length : 0;
        if (!fits) *fallbacks += 1;
    }
}

// Copies as much of a small form as there is, between device and host memory.
KERNEL form_copy(const u8* from, const u64* shown, u8* to) { copy_by_all(to, from, *shown); }

// Fetches the tensor from host memory where it went there. Then there was nothing to decompress, and
// what that said does not count.
KERNEL form_restore(const u8* host, u64 bytes, const u64* shown, u8* tensor, u64* own_status) {
    if (*shown != 0) return;
    copy_by_all(tensor, host, bytes);
    if (is_first()) *own_status = ~0ull;
}
