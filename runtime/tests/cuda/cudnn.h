// A cuDNN that is none, behind the driver that is none: carries out what descriptors say, later, on the
// stream. What cuDNN's documentation forbids is refused; so is what would not give the same bits each
// time, or would round to TF32. Work is done in the workspace, too: it is overwritten with noise.
//
// What the environment says: TIDEGATE_DNN_VERSION (default 90201), TIDEGATE_DNN_GROUPS (default 1): 0 if
// there is no algorithm for groups; TIDEGATE_DNN_FAILS: 1 if it cannot be opened; TIDEGATE_DNN_GRID (default
// 65535): of how many images and channels there may be means, which is found at launch alone.

namespace stand_in {

struct Tensor {
    std::vector<int> extents;
};
struct Filter {
    std::vector<int> extents;
};
struct Sliding {
    std::vector<int> window, padding, step;
    int groups = 1;
    bool exact = false;
};
struct Dnn {
    void* stream = nullptr;
};

enum { GOOD = 0, BAD_PARAM = 2000, MISMATCH = 2008, NOT_SUPPORTED = 3000 };

// Three axes, of which there may be fewer.
struct Axes {
    long at[3];
    Axes(const std::vector<int>& from, size_t first, long otherwise) {
        size_t count = from.size() - first;
        for (size_t i = 0; i < 3; i++) at[i] = i < 3 - count ? otherwise : from[first + i - (3 - count)];
    }
    long volume() const { return at[0] * at[1] * at[2]; }
};

static bool are_windows(const Tensor& x, const Tensor& y, const Sliding& how) {
    size_t axes = how.padding.size();
    if (x.extents.size() != axes + 2 || y.extents.size() != axes + 2 || how.step.size() != axes) return false;
    for (size_t i = 0; i < axes; i++) {
        int room = x.extents[i + 2] + 2 * how.padding[i] - how.window[i];
        if (room < 0 || y.extents[i + 2] != 1 + room / how.step[i]) return false;
    }
    return true;
}

// Calls what is given with the output's and the input's index, and the cell, for each pair of either.
template <class F> static void slide(const Axes& in, const Axes& out, const Sliding& how, F visit) {
    Axes window(how.window, 0, 1), step(how.step, 0, 1), padding(how.padding, 0, 0);
    for (long o = 0; o < out.volume(); o++) {
        long at[3] = {o / out.at[2] / out.at[1], o / out.at[2] % out.at[1], o % out.at[2]};
        for (long k = 0; k < window.volume(); k++) {
            long cell[3] = {k / window.at[2] / window.at[1], k / window.at[2] % window.at[1], k % window.at[2]};
            long index = 0;
            bool inside = true;
            for (int i = 0; i < 3; i++) {
                long from = at[i] * step.at[i] + cell[i] - padding.at[i];
                inside = inside && from >= 0 && from < in.at[i];
                index = index * in.at[i] + from;
            }
            if (inside) visit(o, index, k);
        }
    }
}

// For each output, input and weight that go together: their indices.
template <class F> static void convolve(const Tensor& x, const Tensor& y, const Sliding& how, F visit) {
    Axes in(x.extents, 2, 1), out(y.extents, 2, 1), window(how.window, 0, 1);
    long channels = x.extents[1] / how.groups, to = y.extents[1] / how.groups;
    for (long n = 0; n < x.extents[0]; n++) {
        for (long m = 0; m < y.extents[1]; m++) {
            for (long c = 0; c < channels; c++) {
                long from = (n * x.extents[1] + m / to * channels + c) * in.volume();
                long into = (n * y.extents[1] + m) * out.volume(), weights = (m * channels + c) * window.volume();
                slide(in, out, how, [&](long o, long i, long k) { visit(into + o, from + i, weights + k); });
            }
        }
    }
}

static long elements(const std::vector<int>& extents) {
    long all = 1;
    for (int extent : extents) all *= extent;
    return all;
}

static const float* number(const void* at) { return (const float*)at; }

// What a convolution needs beside its operands.
static size_t room(const Tensor& y) { return 64 + 4 * elements(y.extents) / 3; }

static int refusal(const Tensor& x, const Filter& w, const Sliding& how, const Tensor& y) {
    size_t axes = how.padding.size();
    if (w.extents.size() != axes + 2 || how.groups < 1 || !how.exact) return BAD_PARAM;
    if (how.groups > 1 && setting("TIDEGATE_DNN_GROUPS", 1) == 0) return NOT_SUPPORTED + 2;
    Sliding whole = how;
    whole.window.assign(w.extents.begin() + 2, w.extents.end());
    if (!are_windows(x, y, whole) || x.extents[0] != y.extents[0]) return MISMATCH;
    bool match = w.extents[0] == y.extents[1] && w.extents[1] * how.groups == x.extents[1] &&
        y.extents[1] % how.groups == 0;
    return match ? GOOD : MISMATCH;
}

static int work(void* handle, void* workspace, size_t bytes, std::function<void()> run) {
    Dnn* own = (Dnn*)handle;
    if (!own->stream) return BAD_PARAM;
    return later(own->stream, [=] {
        run();
        for (size_t i = 0; i < bytes; i++) ((char*)workspace)[i] = (char)emulator::next();
    });
}

// All sums of a convolution: into which of its three operands, whose places in a triple are 0 to 2.
static void sums(const Tensor& x, const Filter& w, const Sliding& how, const Tensor& y, float* to, long count,
    const float* a, const float* b, int into) {
    Sliding whole = how;
    whole.window.assign(w.extents.begin() + 2, w.extents.end());
    std::vector<double> sum(count);
    convolve(x, y, whole, [&](long o, long i, long k) {
        if (into == 0) sum[o] += (double)a[i] * b[k];
        if (into == 1) sum[i] += (double)a[k] * b[o];
        if (into == 2) sum[k] += (double)a[i] * b[o];
    });
    for (long i = 0; i < count; i++) to[i] = (float)sum[i];
}

}  // namespace stand_in

extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion() {
    return setting("TIDEGATE_DNN_VERSION", 90201);
}
extern "C" __attribute__((visibility("default"))) size_t cudnnGetCudartVersion() { return 12000; }
extern "C" __attribute__((visibility("default"))) const char* cudnnGetErrorString(int) { return "an error"; }
API cudnnCreate(void** to) { return setting("TIDEGATE_DNN_FAILS", 0) ? 1001 : (*to = new Dnn, GOOD); }
API cudnnDestroy(void* handle) { return delete (Dnn*)handle, GOOD; }
API cudnnSetStream(void* handle, void* stream) { return ((Dnn*)handle)->stream = stream, GOOD; }

API cudnnCreateTensorDescriptor(void** to) { return *to = new Tensor, GOOD; }
API cudnnDestroyTensorDescriptor(void* tensor) { return delete (Tensor*)tensor, GOOD; }
API cudnnSetTensorNdDescriptor(void* tensor, int type, int axes, const int* extents, const int* strides) {
    long apart = 1;
    for (int i = axes - 1; i >= 0; i--) {
        if (extents[i] < 1 || strides[i] != apart) return BAD_PARAM;
        apart *= extents[i];
    }
    if (type != 0 || axes < 4 || axes > 5) return BAD_PARAM;
    return ((Tensor*)tensor)->extents.assign(extents, extents + axes), GOOD;
}
API cudnnCreateFilterDescriptor(void** to) { return *to = new Filter, GOOD; }
API cudnnDestroyFilterDescriptor(void* filter) { return delete (Filter*)filter, GOOD; }
API cudnnSetFilterNdDescriptor(void* filter, int type, int format, int axes, const int* extents) {
    if (type != 0 || format != 0 || axes < 4 || axes > 5) return BAD_PARAM;
    return ((Filter*)filter)->extents.assign(extents, extents + axes), GOOD;
}
API cudnnCreateConvolutionDescriptor(void** to) { return *to = new Sliding, GOOD; }
API cudnnDestroyConvolutionDescriptor(void* how) { return delete (Sliding*)how, GOOD; }
API cudnnSetConvolutionNdDescriptor(void* to, int axes, const int* padding, const int* step, const int* dense,
    int mode, int type) {
    Sliding* how = (Sliding*)to;
    for (int i = 0; i < axes; i++) {
        if (padding[i] < 0 || step[i] < 1 || dense[i] != 1) return BAD_PARAM;
    }
    how->padding.assign(padding, padding + axes);
    how->step.assign(step, step + axes);
    return mode == 1 && type == 0 ? GOOD : BAD_PARAM;
}
API cudnnSetConvolutionGroupCount(void* how, int groups) { return ((Sliding*)how)->groups = groups, GOOD; }
// 3 is that without TF32.
API cudnnSetConvolutionMathType(void* how, int math) { return ((Sliding*)how)->exact = math == 3, GOOD; }
API cudnnCreatePoolingDescriptor(void** to) { return *to = new Sliding, GOOD; }
API cudnnDestroyPoolingDescriptor(void* how) { return delete (Sliding*)how, GOOD; }
// 2 is the mean without padding.
API cudnnSetPoolingNdDescriptor(void* to, int mode, int nan, int axes, const int* window, const int* padding,
    const int* step) {
    Sliding* how = (Sliding*)to;
    for (int i = 0; i < axes; i++) {
        if (padding[i] >= window[i]) return BAD_PARAM;
    }
    how->window.assign(window, window + axes);
    how->padding.assign(padding, padding + axes);
    how->step.assign(step, step + axes);
    return mode == 2 && nan == 1 ? GOOD : BAD_PARAM;
}

// Algorithms: 1 is that with indices worked out before, and of either gradient the one in a fixed order.
API cudnnGetConvolutionForwardWorkspaceSize(void*, void* x, void* w, void* how, void* y, int algorithm,
    size_t* bytes) {
    *bytes = room(*(Tensor*)y);
    int why = refusal(*(Tensor*)x, *(Filter*)w, *(Sliding*)how, *(Tensor*)y);
    return why != GOOD ? why : algorithm == 1 ? GOOD : BAD_PARAM;
}
API cudnnGetConvolutionBackwardDataWorkspaceSize(void* handle, void* w, void* dy, void* how, void* dx,
    int algorithm, size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, dx, w, how, dy, algorithm, bytes);
}
API cudnnGetConvolutionBackwardFilterWorkspaceSize(void* handle, void* x, void* dy, void* how, void* dw,
    int algorithm, size_t* bytes) {
    return cudnnGetConvolutionForwardWorkspaceSize(handle, x, dw, how, dy, algorithm, bytes);
}
API cudnnConvolutionForward(void* handle, const void* alpha, void* xd, const void* x, void* wd, const void* w,
    void* how, int algorithm, void* workspace, size_t bytes, const void* beta, void* yd, void* y) {
    Tensor from = *(Tensor*)xd, to = *(Tensor*)yd;
    Filter filter = *(Filter*)wd;
    Sliding sliding = *(Sliding*)how;
    int why = refusal(from, filter, sliding, to);
    if (why != GOOD) return why;
    if (algorithm != 1 || bytes < room(to) || *number(alpha) != 1 || *number(beta) != 0) return BAD_PARAM;
    return work(handle, workspace, bytes, [=] {
        sums(from, filter, sliding, to, (float*)y, elements(to.extents), number(x), number(w), 0);
    });
}
API cudnnConvolutionBackwardData(void* handle, const void* alpha, void* wd, const void* w, void* yd,
    const void* dy, void* how, int algorithm, void* workspace, size_t bytes, const void* beta, void* xd, void* dx) {
    Tensor from = *(Tensor*)xd, to = *(Tensor*)yd;
    Filter filter = *(Filter*)wd;
    Sliding sliding = *(Sliding*)how;
    int why = refusal(from, filter, sliding, to);
    if (why != GOOD) return why;
    if (algorithm != 1 || bytes < room(to) || *number(alpha) != 1 || *number(beta) != 0) return BAD_PARAM;
    return work(handle, workspace, bytes, [=] {
        sums(from, filter, sliding, to, (float*)dx, elements(from.extents), number(w), number(dy), 1);
    });
}
API cudnnConvolutionBackwardFilter(void* handle, const void* alpha, void* xd, const void* x, void* yd,
    const void* dy, void* how, int algorithm, void* workspace, size_t bytes, const void* beta, void* wd, void* dw) {
    Tensor from = *(Tensor*)xd, to = *(Tensor*)yd;
    Filter filter = *(Filter*)wd;
    Sliding sliding = *(Sliding*)how;
    int why = refusal(from, filter, sliding, to);
    if (why != GOOD) return why;
    if (algorithm != 1 || bytes < room(to) || *number(alpha) != 1 || *number(beta) != 0) return BAD_PARAM;
    return work(handle, workspace, bytes, [=] {
        sums(from, filter, sliding, to, (float*)dw, elements(filter.extents), number(x), number(dy), 2);
    });
}

// Means: either direction, of as many cells as lie inside.
static void means(const Tensor& x, const Tensor& y, const Sliding& how, const float* from, float* to, bool back) {
    Axes in(x.extents, 2, 1), out(y.extents, 2, 1);
    for (long plane = 0; plane < (long)x.extents[0] * x.extents[1]; plane++) {
        std::vector<double> sum(back ? in.volume() : out.volume());
        std::vector<long> count(out.volume());
        slide(in, out, how, [&](long o, long, long) { count[o]++; });
        slide(in, out, how, [&](long o, long i, long) {
            if (back) sum[i] += (double)from[plane * out.volume() + o] / count[o];
            else sum[o] += (double)from[plane * in.volume() + i] / count[o];
        });
        for (size_t i = 0; i < sum.size(); i++) to[plane * sum.size() + i] = (float)sum[i];
    }
}
static bool is_too_wide(const Tensor& x) {
    int most = setting("TIDEGATE_DNN_GRID", 65535);
    return x.extents[0] > most || x.extents[1] > most;
}
API cudnnPoolingForward(void* handle, void* how, const void* alpha, void* xd, const void* x, const void* beta,
    void* yd, void* y) {
    Tensor from = *(Tensor*)xd, to = *(Tensor*)yd;
    Sliding sliding = *(Sliding*)how;
    if (!are_windows(from, to, sliding) || *number(alpha) != 1 || *number(beta) != 0) return BAD_PARAM;
    if (is_too_wide(from)) return NOT_SUPPORTED;
    return work(handle, nullptr, 0, [=] { means(from, to, sliding, number(x), (float*)y, false); });
}
API cudnnPoolingBackward(void* handle, void* how, const void* alpha, void* yd, const void* y, void* dyd,
    const void* dy, void* xd, const void* x, const void* beta, void* dxd, void* dx) {
    Tensor from = *(Tensor*)dxd, to = *(Tensor*)dyd;
    Sliding sliding = *(Sliding*)how;
    bool same = ((Tensor*)xd)->extents == from.extents && ((Tensor*)yd)->extents == to.extents && x && y;
    if (!same || !are_windows(from, to, sliding) || *number(alpha) != 1 || *number(beta) != 0) return BAD_PARAM;
    if (is_too_wide(from)) return NOT_SUPPORTED;
    return work(handle, nullptr, 0, [=] { means(from, to, sliding, number(dy), (float*)dx, true); });
}

// 1 is the algorithm that does not overflow; 0 the mode in which all of a sample is one row.
API cudnnSoftmaxForward(void* handle, int algorithm, int mode, const void* alpha, void* xd, const void* x,
    const void* beta, void* yd, void* y) {
    Tensor to = *(Tensor*)yd;
    bool fits = ((Tensor*)xd)->extents == to.extents && algorithm == 1 && mode == 0;
    if (!fits || *number(alpha) != 1 || *number(beta) != 0) return BAD_PARAM;
    return work(handle, nullptr, 0, [=] {
        long width = elements(to.extents) / to.extents[0];
        for (long row = 0; row < to.extents[0]; row++) {
            const float* from = number(x) + row * width;
            float largest = from[0];
            for (long i = 0; i < width; i++) largest = from[i] > largest ? from[i] : largest;
            std::vector<double> all(width);
            double total = 0;
            for (long i = 0; i < width; i++) total += all[i] = exp((double)from[i] - largest);
            for (long i = 0; i < width; i++) ((float*)y)[row * width + i] = (float)(all[i] / total);
        }
    });
}
API cudnnSoftmaxBackward(void* handle, int algorithm, int mode, const void* alpha, void* yd, const void* y,
    void* dyd, const void* dy, const void* beta, void* xd, void* dx) {
    Tensor to = *(Tensor*)xd;
    bool fits = ((Tensor*)yd)->extents == to.extents && ((Tensor*)dyd)->extents == to.extents;
    if (!fits || algorithm != 1 || mode != 0 || *number(alpha) != 1 || *number(beta) != 0) return BAD_PARAM;
    return work(handle, nullptr, 0, [=] {
        long width = elements(to.extents) / to.extents[0];
        for (long first = 0; first < elements(to.extents); first += width) {
            double mean = 0;
            for (long i = first; i < first + width; i++) mean += (double)number(y)[i] * number(dy)[i];
            for (long i = first; i < first + width; i++) {
                ((float*)dx)[i] = (float)(number(y)[i] * (number(dy)[i] - mean));
            }
        }
    });
}
