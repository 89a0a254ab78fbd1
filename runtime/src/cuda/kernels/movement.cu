// Copies to another order, or of a part.

template <class T> DEVICE void copy_rows_of(
    u64 rows, u64 part, u64 from_width, u64 from_start, u64 to_width, u64 to_start, const T* from, T* to
) {
    for (Walk at = grid_walk(part); at.row < rows; at.next()) {
        to[at.row * to_width + to_start + at.column] = from[at.row * from_width + from_start + at.column];
    }
}

// Rows of `part` elements, from a place in rows of one width to a place in rows of another.
KERNEL copy_rows(
    u64 rows, u64 part, u64 from_width, u64 from_start, u64 to_width, u64 to_start, const Element* from, Element* to
) {
    typedef Several<Element, 4> Four;
    bool fours = (part | from_width | from_start | to_width | to_start) % 4 == 0 && lie_at_fours(from, to);
    if (fours) {
        copy_rows_of(
            rows, part / 4, from_width / 4, from_start / 4, to_width / 4, to_start / 4, (const Four*)from, (Four*)to);
    } else {
        copy_rows_of(rows, part, from_width, from_start, to_width, to_start, from, to);
    }
}

// Of the output: extents, how far apart its elements are in the input, and along each axis the part
// that the input fills.
struct Movement {
    u64 extent[6], stride[6], first[6], count[6];

    __device__ __forceinline__ u64 output() const {
        return extent[0] * extent[1] * extent[2] * extent[3] * extent[4] * extent[5];
    }
    // Where an element of the output comes from; all ones if from nowhere. Divisions in 32 bits are
    // several times as quick.
    __device__ __forceinline__ u64 input(u64 index) const {
        return output() >> 32 == 0 ? input_of<u32>(index) : input_of<u64>(index);
    }
    template <class Index> __device__ __forceinline__ u64 input_of(Index index) const {
        u64 place = 0;
        for (u32 axis = 6; axis-- > 0;) {
            u64 along = extent[axis] == 1 ? 0 : index % (Index)extent[axis];
            if (along < first[axis] || along - first[axis] >= count[axis]) return ~0ull;
            place += (along - first[axis]) * stride[axis];
            if (extent[axis] != 1) index /= (Index)extent[axis];
        }
        return place;
    }
};

#define MOVEMENT_ARGUMENTS                                                                         \
    u64 e0, u64 e1, u64 e2, u64 e3, u64 e4, u64 e5, u64 s0, u64 s1, u64 s2, u64 s3, u64 s4, u64 s5, u64 f0, \
        u64 f1, u64 f2, u64 f3, u64 f4, u64 f5, u64 c0, u64 c1, u64 c2, u64 c3, u64 c4, u64 c5
#define MOVEMENT                                                                                   \
    Movement { {e0, e1, e2, e3, e4, e5}, {s0, s1, s2, s3, s4, s5}, {f0, f1, f2, f3, f4, f5},         \
        {c0, c1, c2, c3, c4, c5} }

KERNEL move_forward(MOVEMENT_ARGUMENTS, const Element* x, Element* y) {
    Movement movement = MOVEMENT;
    EACH(i, movement.output()) {
        u64 from = movement.input(i);
        y[i] = from == ~0ull ? 0.0f : x[from];
    }
}

// Into zeros. No element of the input goes to two of the output.
KERNEL move_backward(MOVEMENT_ARGUMENTS, const Element* dy, Element* dx) {
    Movement movement = MOVEMENT;
    EACH(i, movement.output()) {
        u64 to = movement.input(i);
        if (to != ~0ull) dx[to] = 0.0f + dy[i];
    }
}
