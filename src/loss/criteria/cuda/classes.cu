/*
 * src/loss/criteria/cuda/classes.cu - the losses in softmax's place, a warp per row: L-Softmax,
 * A-Softmax, CosFace, ArcFace and LogitNorm, whose formulas are in loss/criteria.
 *
 * `cosines` holds those of rows and class vectors (LogitNorm: `logits` their products). What is
 * left is the value by place, what was right, and in `dlogits` the gradient by the cosines (or
 * products). A lane works on classes lane, lane + 32, ... throughout, so that what it writes to a
 * row it alone reads again.
 */
#include "loss/criteria/cuda/parts.cuh"

namespace {

/* fmin and fmax would turn NaN into a cosine. */
__device__ double clamp(double cosine) {
    return cosine > 1.0 ? 1.0 : cosine < -1.0 ? -1.0 : cosine;
}

/* The first class with the largest of f(class). */
template <class F>
__device__ int warp_best(int classes, F f) {
    double most = -INFINITY;
    int at = INT32_MAX;
    for (int j = lane_of(); j < classes; j += LANES) {
        double v = f(j);
        if (v > most) most = v, at = j;
    }
#pragma unroll
    for (int offset = LANES / 2; offset; offset >>= 1) {
        double other = __shfl_xor_sync(0xffffffffu, most, offset);
        int other_at = __shfl_xor_sync(0xffffffffu, at, offset);
        if (other > most || (other == most && other_at < at)) most = other, at = other_at;
    }
    return at;
}

/* Softmax cross-entropy of the logits z(class): its value, and the gradient of the mean over n
 * rows. */
struct Softmax {
    double largest, sum, label_logit, n;
    int label;

    __device__ double value() const {
        return (log(sum) + (largest - label_logit)) / n;
    }
    __device__ double slope(double z, int j) const {
        return (exp(z - largest) / sum - (j == label ? 1.0 : 0.0)) / n;
    }
};

template <class F>
__device__ Softmax softmax_of(const criterion_call &c, int label, F z) {
    Softmax s = {-INFINITY, 0.0, z(label), (double)*c.used, label};
    for (int j = lane_of(); j < c.classes; j += LANES)
        s.largest = fmax(s.largest, z(j));
    s.largest = warp_largest(s.largest);
    for (int j = lane_of(); j < c.classes; j += LANES)
        s.sum += exp(z(j) - s.largest);
    s.sum = warp_sum(s.sum);
    return s;
}

/* The label's cosine after the margin, and the derivative by the one before it. */
struct Margin {
    double cosine, slope;
};

__device__ Margin arcface_margin(const criterion_call &c, double x) {
    const double least_sine = 1e-6; /* as in arcface.c */
    double margin = c.param[0], sine = sqrt(fmax(0.0, 1.0 - x * x));
    if (x < -cos(margin)) return Margin{x - margin * sin(margin), 1.0};
    return Margin{x * cos(margin) - sine * sin(margin),
                  cos(margin) + x * sin(margin) / fmax(sine, least_sine)};
}

__device__ Margin cosface_margin(const criterion_call &c, double x) {
    return Margin{x - c.param[0], 1.0};
}

/* Logits scale * cosine, with a margin at the label. */
template <class F>
__device__ void scaled_cosines(const criterion_call &c, int place, F margin_of) {
    double scale = c.param[1];
    const double *cosines = c.cosines + (int64_t)place * c.classes;
    double *slopes = c.dlogits + (int64_t)place * c.classes;
    int label = label_of(c, place);
    Margin margin = margin_of(clamp(cosines[label]));
    int best = warp_best(c.classes, [&](int j) { return scale * clamp(cosines[j]); });
    auto logit = [&](int j) { return scale * (j == label ? margin.cosine : clamp(cosines[j])); };
    Softmax s = softmax_of(c, label, logit);
    for (int j = lane_of(); j < c.classes; j += LANES)
        slopes[j] = s.slope(logit(j), j) * scale * (j == label ? margin.slope : 1.0);
    if (lane_of() != 0) return;
    c.value[place] = s.value();
    c.right[place] = best == label;
}

__global__ void __launch_bounds__(THREADS) arcface(const criterion_call c) {
    int place = warp_item();
    if (place < *c.used)
        scaled_cosines(c, place, [&](double cosine) { return arcface_margin(c, cosine); });
}

__global__ void __launch_bounds__(THREADS) cosface(const criterion_call c) {
    int place = warp_item();
    if (place < *c.used)
        scaled_cosines(c, place, [&](double cosine) { return cosface_margin(c, cosine); });
}

/* cos mθ and its derivative by cos θ: Chebyshev polynomials T_m and m U_{m−1}. */
__device__ Margin cos_multiple(int m, double x) {
    double t = x, before = 1.0, u = 1.0, u_before = 0.0;
    for (int i = 1; i < m; i++) {
        double next = 2.0 * x * t - before, u_next = 2.0 * x * u - u_before;
        before = t;
        t = next;
        u_before = u;
        u = u_next;
    }
    return Margin{t, m * u};
}

/* ψ, mixed with the cosine as the step asks. */
__device__ Margin angular_margin(const criterion_call &c, double x) {
    int m = (int)c.param[0];
    double base = c.param[1], gamma = c.param[2], power = c.param[3], least = c.param[4];
    double lambda = fmax(least, base * pow(1.0 + gamma * (double)*c.in.step, -power));
    double k = fmin(floor(m * acos(x) / 3.14159265358979323846), (double)(m - 1));
    double sign = fmod(k, 2.0) == 0.0 ? 1.0 : -1.0;
    Margin multiple = cos_multiple(m, x);
    return Margin{(lambda * x + sign * multiple.cosine - 2.0 * k) / (1.0 + lambda),
                  (lambda + sign * multiple.slope) / (1.0 + lambda)};
}

/* Logits length * cosine (and the class vector's length, unless they count as 1).  Leaves the
 * gradients through the lengths: along[place], and terms of that of class vectors in `logits`. */
__global__ void __launch_bounds__(THREADS) angular(const criterion_call c, bool unit) {
    int place = warp_item();
    if (place >= *c.used) return;
    const double *cosines = c.cosines + (int64_t)place * c.classes;
    double *slopes = c.dlogits + (int64_t)place * c.classes;
    double *terms = c.logits + (int64_t)place * c.classes;
    double length = c.length[place], along = 0.0;
    int label = label_of(c, place);
    Margin margin = angular_margin(c, clamp(cosines[label]));
    auto class_length = [&](int j) { return unit ? 1.0 : c.w_length[j]; };
    auto cosine = [&](int j) { return j == label ? margin.cosine : clamp(cosines[j]); };
    auto logit = [&](int j) { return length * class_length(j) * cosine(j); };
    int best =
        warp_best(c.classes, [&](int j) { return length * class_length(j) * clamp(cosines[j]); });
    Softmax s = softmax_of(c, label, logit);
    for (int j = lane_of(); j < c.classes; j += LANES) {
        double slope = s.slope(logit(j), j);
        along += slope * cosine(j) * class_length(j);
        terms[j] = slope * cosine(j) * length;
        slopes[j] = slope * length * class_length(j) * (j == label ? margin.slope : 1.0);
    }
    along = warp_sum(along);
    if (lane_of() != 0) return;
    c.along[place] = along;
    c.value[place] = s.value();
    c.right[place] = best == label;
}

__global__ void __launch_bounds__(THREADS) logit_norm(const criterion_call c) {
    int place = warp_item();
    if (place >= *c.used) return;
    const double *products = c.logits + (int64_t)place * c.classes;
    double *slopes = c.dlogits + (int64_t)place * c.classes;
    double tau = c.param[0], square = 0.0, along = 0.0;
    int label = label_of(c, place);
    auto sum = [&](int j) { return products[j] + (c.in.b ? (double)c.in.b[j] : 0.0); };
    for (int j = lane_of(); j < c.classes; j += LANES)
        square = fma(sum(j), sum(j), square);
    double norm = sqrt(warp_sum(square)), length = norm + 1e-7;
    auto logit = [&](int j) { return sum(j) / (tau * length); };
    int best = warp_best(c.classes, logit);
    Softmax s = softmax_of(c, label, logit);
    for (int j = lane_of(); j < c.classes; j += LANES)
        along += s.slope(logit(j), j) * logit(j);
    along = warp_sum(along);
    double back = norm > 0.0 ? along * tau * length / norm : 0.0;
    for (int j = lane_of(); j < c.classes; j += LANES)
        slopes[j] = (s.slope(logit(j), j) / tau - back * logit(j)) / length;
    if (lane_of() != 0) return;
    c.value[place] = s.value();
    c.right[place] = best == label;
}

unsigned grid_of(const criterion_call *c) {
    return blocks_of(c->rows, WARPS);
}

} // namespace

cudaError_t criterion_arcface(const criterion_call *c, cudaStream_t stream) {
    arcface<<<grid_of(c), THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t criterion_cosface(const criterion_call *c, cudaStream_t stream) {
    cosface<<<grid_of(c), THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t criterion_l_softmax(const criterion_call *c, cudaStream_t stream) {
    angular<<<grid_of(c), THREADS, 0, stream>>>(*c, false);
    return cudaGetLastError();
}

cudaError_t criterion_a_softmax(const criterion_call *c, cudaStream_t stream) {
    angular<<<grid_of(c), THREADS, 0, stream>>>(*c, true);
    return cudaGetLastError();
}

cudaError_t criterion_logit_norm(const criterion_call *c, cudaStream_t stream) {
    logit_norm<<<grid_of(c), THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}
