/*
 * src/loss/criteria/cuda/spectral.cu - SSOLE and OLÉ of unit rows around two evaluations of OLÉ's
 * own kernels (loss/cuda): of the class matrices of centred rows, and of the whole batch.
 *
 * Smoothing, Σ √(σ² + μ²) − μ, is the nuclear norm of [A, μ I] less μ per row: the rows get as many
 * more columns as there are rows, with μ in a column of their own.
 */
#include "loss/criteria/cuda/parts.cuh"

namespace {

__device__ const double *source_of(const criterion_call &c) {
    return c.unit ? c.u : c.x;
}

/* Row i of [source, smooth I], or the identity part alone. */
__device__ void widen(const criterion_call &c, int i, bool copy, double smooth, double *to) {
    const double *from = source_of(c) + (int64_t)i * c.dim;
    to += i * c.pitch;
    for (int d = (int)threadIdx.x; d < c.dim && copy; d += THREADS)
        to[d] = from[d];
    for (int64_t d = c.dim + (int)threadIdx.x; d < c.pitch; d += THREADS)
        to[d] = d - c.dim == i ? smooth : 0.0;
}

/* Block i: the label, and what the two losses read of the row at place i, unless that is the
 * source; or where i is the first of a class, the centred rows of all of it. */
__global__ void __launch_bounds__(THREADS)
    spectral_rows(const criterion_call c, bool centred, double smooth) {
    int i = (int)blockIdx.x, used = *c.used;
    if (threadIdx.x == 0) c.sorted_labels[i] = i < used ? label_of(c, i) : -1;
    if (i >= used) return;
    const double *source = source_of(c);
    if (c.wide != source) widen(c, i, true, smooth, c.wide);
    if (c.centred != source) widen(c, i, !centred, smooth, c.centred);
    if (!centred || !is_first(c, i)) return;
    int end = i + c.count[i];
    for (int d = (int)threadIdx.x; d < c.dim; d += THREADS) {
        double mean = 0.0;
        for (int p = i; p < end; p++)
            mean += source[(int64_t)p * c.dim + d] / (double)c.count[i];
        for (int p = i; p < end; p++)
            c.centred[p * c.pitch + d] = source[(int64_t)p * c.dim + d] - mean;
    }
}

__global__ void __launch_bounds__(THREADS) ole_unit_value(const criterion_call c) {
    for (int p = (int)threadIdx.x; p < *c.used; p += THREADS)
        c.value[p] = p == 0 ? c.spectra[0]->value + c.spectra[1]->value : 0.0;
}

/* The cosine that a nuclear norm r of n unit rows stands for, and its derivative by r. */
struct Spread {
    double cosine, slope;
};

__device__ Spread spread_of(double r, double n) {
    double share = fmin(r / n, 1.0), beta = asin(share) - asin(1.0 / sqrt(n));
    double first = (n * n / (r * r) - 1.0) / (n - 1.0);
    double second = (n * cos(beta) * cos(beta) - 1.0) / (n - 1.0);
    double by_beta = -n * sin(2.0 * beta) / (n - 1.0);
    double by_r = 1.0 / (n * sqrt(fmax(1.0 - share * share, 1e-12)));
    return Spread{0.5 * (first + second),
                  0.5 * (-2.0 * n * n / (r * r * r) / (n - 1.0) + by_beta * by_r)};
}

/* Block i: value and gradient of the row at place i.  slopes[0] holds the class's polar factor,
 * slopes[1] minus that of the whole. */
__global__ void __launch_bounds__(THREADS) ssole(const criterion_call c) {
    int i = (int)blockIdx.x, used = *c.used;
    if (i >= used) return;
    double classes =
        sum_places(c, [&](int p) { return is_first(c, p) && c.count[p] > 1 ? 1.0 : 0.0; });
    double norm = c.norms[0][c.first[i]], whole = *c.norms[1], others = (double)(c.count[i] - 1);
    double scale = c.count[i] > 1 ? norm / (others * others * classes) : 0.0;
    Spread spread = used > 1 && whole > 0.0 ? spread_of(whole, (double)used) : Spread{0.0, 0.0};
    double *slopes = c.slopes[0] + i * c.pitch;
    const double *apart = c.slopes[1] + i * c.pitch;
    for (int d = (int)threadIdx.x; d < c.dim; d += THREADS)
        slopes[d] = 2.0 * scale * slopes[d] - c.param[0] * spread.slope * apart[d];
    if (threadIdx.x == 0)
        c.value[i] =
            (is_first(c, i) ? scale * norm : 0.0) + (i == 0 ? c.param[0] * spread.cosine : 0.0);
}

} // namespace

cudaError_t criterion_spectral_rows(const criterion_call *c, int centred, double smooth,
                                    cudaStream_t stream) {
    spectral_rows<<<(unsigned)c->rows, THREADS, 0, stream>>>(*c, centred != 0, smooth);
    return cudaGetLastError();
}

cudaError_t criterion_ole_unit(const criterion_call *c, cudaStream_t stream) {
    ole_unit_value<<<1, THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}

cudaError_t criterion_ssole(const criterion_call *c, cudaStream_t stream) {
    ssole<<<(unsigned)c->rows, THREADS, 0, stream>>>(*c);
    return cudaGetLastError();
}
