/* src/ranks/add.h - one step of a sum over ranks, which are added in rank order. */
#ifndef OLE_SRC_RANKS_ADD_H
#define OLE_SRC_RANKS_ADD_H

#include "ole/base.h"

/* sum[count] += more[count], of type OLE_F32, OLE_F64 or OLE_I64. */
static inline void ole_ranks_add(void *sum, const void *more, int64_t count, ole_dtype type) {
    if (type == OLE_F32)
        for (int64_t i = 0; i < count; i++)
            ((float *)sum)[i] += ((const float *)more)[i];
    else if (type == OLE_F64)
        for (int64_t i = 0; i < count; i++)
            ((double *)sum)[i] += ((const double *)more)[i];
    else
        for (int64_t i = 0; i < count; i++)
            ((int64_t *)sum)[i] += ((const int64_t *)more)[i];
}

#endif
