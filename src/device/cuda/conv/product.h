/*
 * src/device/cuda/conv/product.h - one pass of a linear layer or a 1 x 1 convolution as a matrix
 * product by cuBLASLt: its description, algorithms for it, and running one.  Used like dnn.h.
 *
 * Only algorithms that repeat bit for bit are used: if a sum is split, its parts are added in
 * float, in order.  Floats are rounded to tf32 only on request.
 */
#ifndef OLE_SRC_DEVICE_CUDA_CONV_PRODUCT_H
#define OLE_SRC_DEVICE_CUDA_CONV_PRODUCT_H

#include "device/cuda/conv/algorithm.h"

typedef struct cuda_product cuda_product;

/* NULL: no memory, or cuBLASLt cannot describe it. */
cuda_product *cuda_product_create(const ole_device_context *context, const cuda_problem *problem);
void cuda_product_destroy(cuda_product *product);

int cuda_product_algorithms(const cuda_product *product, size_t workspace,
                            cuda_algorithm *algorithms, int room);
bool cuda_product_named(const cuda_product *product, size_t workspace, const char *name,
                        cuda_algorithm *algorithm);
cublasStatus_t cuda_product_run(const cuda_product *product, const cuda_algorithm *algorithm,
                                const cuda_arrays *arrays);

#endif
