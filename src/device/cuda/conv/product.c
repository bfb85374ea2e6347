/*
 * src/device/cuda/conv/product.c - one pass as a matrix product by cuBLASLt.
 *
 * With r = n * h * w rows, x is [r, in], w [out, in] and y [r, out], row by row.  cuBLASLt goes
 * column by column, where the same memory is x' [in, r], w' [in, out] and y' [out, r]:
 *
 *     y'  = w'^T x'     forward
 *     dx' = w' dy'      the gradient of x
 *     dw' = x' dy'^T    the gradient of w
 */
#include "device/cuda/conv/product.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct cuda_product {
    cublasLtHandle_t handle;
    cuda_problem problem;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t x, w, y;
};

/* ---- describing a problem ----------------------------------------------------------------- */

static cublasComputeType_t compute_type(const cuda_problem *p) {
    return p->type == CUDA_FLOAT && p->precision == OLE_PRECISION_TF32
               ? CUBLAS_COMPUTE_32F_FAST_TF32
               : CUBLAS_COMPUTE_32F;
}

static bool describe_operation(cuda_product *product, const void *aligned) {
    const cuda_problem *p = &product->problem;
    cublasOperation_t a = p->pass == CUDA_PASS_FORWARD ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t b = p->pass == CUDA_PASS_WEIGHT ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    if (cublasLtMatmulDescCreate(&product->operation, compute_type(p), CUDA_R_32F) !=
        CUBLAS_STATUS_SUCCESS)
        return false;
    cublasLtMatmulDesc_t d = product->operation;
    cublasStatus_t failed =
        cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &a, sizeof a) |
        cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &b, sizeof b) |
        cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                       sizeof epilogue);
    if (p->bias) /* set by each run; algorithms are chosen by its alignment */
        failed |= cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned,
                                                 sizeof aligned);
    return failed == CUBLAS_STATUS_SUCCESS;
}

static bool describe(cuda_product *product, const void *aligned) {
    const cuda_problem *p = &product->problem;
    cudaDataType_t type = p->type == CUDA_FLOAT ? CUDA_R_32F : CUDA_R_16BF;
    uint64_t rows = (uint64_t)(p->n * p->in_h * p->in_w);
    uint64_t in = (uint64_t)p->in, out = (uint64_t)p->out;
    return describe_operation(product, aligned) &&
           cublasLtMatrixLayoutCreate(&product->x, type, in, rows, p->in) ==
               CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutCreate(&product->w, type, in, out, p->in) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutCreate(&product->y, type, out, rows, p->out) ==
               CUBLAS_STATUS_SUCCESS;
}

cuda_product *cuda_product_create(const ole_device_context *context, const cuda_problem *problem) {
    cuda_product *product = calloc(1, sizeof *product);
    if (!product) return NULL;
    product->handle = (cublasLtHandle_t)context->blas; /* one may stand for the other */
    product->problem = *problem;
    if (describe(product, context->workspace[0])) return product;
    cuda_product_destroy(product);
    return NULL;
}

void cuda_product_destroy(cuda_product *product) {
    if (!product) return;
    if (product->operation) cublasLtMatmulDescDestroy(product->operation);
    if (product->x) cublasLtMatrixLayoutDestroy(product->x);
    if (product->w) cublasLtMatrixLayoutDestroy(product->w);
    if (product->y) cublasLtMatrixLayoutDestroy(product->y);
    free(product);
}

/* Describes the operands and the result. */
typedef struct operands {
    cublasLtMatrixLayout_t a, b, c;
} operands;

static operands layouts_of(const cuda_product *p) {
    switch (p->problem.pass) {
    case CUDA_PASS_FORWARD:
        return (operands){p->w, p->x, p->y};
    case CUDA_PASS_DATA:
        return (operands){p->w, p->y, p->x};
    default:
        return (operands){p->x, p->y, p->w};
    }
}

/* ---- algorithms --------------------------------------------------------------------------- */

static cublasLtMatmulPreference_t create_preference(size_t workspace) {
    cublasLtMatmulPreference_t preference = NULL;
    uint64_t bytes = workspace;
    uint32_t sums = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = CUDA_TENSOR_ALIGNMENT;
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS) return NULL;
    cublasStatus_t failed =
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &bytes, sizeof bytes) |
        cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &sums, sizeof sums);
    for (size_t i = 0; i < sizeof aligned / sizeof *aligned; i++)
        failed |= cublasLtMatmulPreferenceSetAttribute(preference, aligned[i], &alignment,
                                                       sizeof alignment);
    if (failed == CUBLAS_STATUS_SUCCESS) return preference;
    cublasLtMatmulPreferenceDestroy(preference);
    return NULL;
}

/* Whether the sum is not split, or its parts are added in float. */
static bool repeats(const cublasLtMatmulAlgo_t *algorithm) {
    uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_INPLACE;
    size_t written = 0;
    return cublasLtMatmulAlgoConfigGetAttribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                &scheme, sizeof scheme,
                                                &written) == CUBLAS_STATUS_SUCCESS &&
           (scheme & ~(uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) == 0;
}

static void fill_algorithm(const cublasLtMatmulHeuristicResult_t *result,
                           cuda_algorithm *algorithm) {
    *algorithm = (cuda_algorithm){
        .kind = CUDA_ALGORITHM_PRODUCT, .workspace = result->workspaceSize, .matmul = result->algo};
    size_t at = (size_t)snprintf(algorithm->name, sizeof algorithm->name, "cublas");
    for (size_t i = 0; i < sizeof algorithm->matmul.data / sizeof *algorithm->matmul.data; i++)
        at += (size_t)snprintf(algorithm->name + at, sizeof algorithm->name - at, ":%" PRIx64,
                               algorithm->matmul.data[i]);
}

int cuda_product_algorithms(const cuda_product *product, size_t workspace,
                            cuda_algorithm *algorithms, int room) {
    enum { MOST = 8 };
    cublasLtMatmulHeuristicResult_t result[MOST];
    cublasLtMatmulPreference_t preference = create_preference(workspace);
    if (!preference) return 0;
    operands o = layouts_of(product);
    int there = 0, count = 0;
    if (cublasLtMatmulAlgoGetHeuristic(product->handle, product->operation, o.a, o.b, o.c, o.c,
                                       preference, room < MOST ? room : MOST, result,
                                       &there) != CUBLAS_STATUS_SUCCESS)
        there = 0;
    cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; i < there; i++)
        if (result[i].state == CUBLAS_STATUS_SUCCESS && result[i].workspaceSize <= workspace &&
            repeats(&result[i].algo))
            fill_algorithm(&result[i], &algorithms[count++]);
    return count;
}

bool cuda_product_named(const cuda_product *product, size_t workspace, const char *name,
                        cuda_algorithm *algorithm) {
    cublasLtMatmulHeuristicResult_t result = {0};
    uint64_t *word = result.algo.data;
    int end = 0;
    if (sscanf(name,
               "cublas:%" SCNx64 ":%" SCNx64 ":%" SCNx64 ":%" SCNx64 ":%" SCNx64 ":%" SCNx64
               ":%" SCNx64 ":%" SCNx64 "%n",
               &word[0], &word[1], &word[2], &word[3], &word[4], &word[5], &word[6], &word[7],
               &end) != 8 ||
        name[end] != '\0' || !repeats(&result.algo))
        return false;
    operands o = layouts_of(product);
    cublasLtMatmulHeuristicResult_t checked = {0};
    if (cublasLtMatmulAlgoCheck(product->handle, product->operation, o.a, o.b, o.c, o.c,
                                &result.algo, &checked) != CUBLAS_STATUS_SUCCESS ||
        checked.workspaceSize > workspace)
        return false;
    result.workspaceSize = checked.workspaceSize;
    fill_algorithm(&result, algorithm);
    return true;
}

/* ---- running ------------------------------------------------------------------------------ */

cublasStatus_t cuda_product_run(const cuda_product *product, const cuda_algorithm *algorithm,
                                const cuda_arrays *arrays) {
    const cuda_problem *p = &product->problem;
    float alpha = 1.0f, beta = p->add ? 1.0f : 0.0f;
    const void *a = p->pass == CUDA_PASS_WEIGHT ? arrays->x : arrays->w;
    const void *b = p->pass == CUDA_PASS_FORWARD ? arrays->x : arrays->y;
    void *c = p->pass == CUDA_PASS_FORWARD ? arrays->y
              : p->pass == CUDA_PASS_DATA  ? arrays->x
                                           : arrays->w;
    operands o = layouts_of(product);
    if (p->bias) {
        cublasStatus_t status =
            cublasLtMatmulDescSetAttribute(product->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                           &arrays->bias, sizeof arrays->bias);
        if (status != CUBLAS_STATUS_SUCCESS) return status;
    }
    return cublasLtMatmul(product->handle, product->operation, &alpha, a, o.a, b, o.b, &beta, c,
                          o.c, c, o.c, &algorithm->matmul, arrays->workspace, algorithm->workspace,
                          arrays->stream);
}
