/*
 * src/base/vector.h - vector types for kernels that are compiled once per instruction set: OLE_ISA
 * names it, and PASTE(table_, OLE_ISA) the table of its kernels.
 *
 *     enum { VL = 8 };             // elements of a vector
 *     #define OLE_SCALAR float
 *     #include "base/vector.h"
 *
 * Variables are of the natural type; `anywhere` is for reading and writing memory and nothing else.
 * A local array of an under-aligned vector type would be correct too, but gcc (12 to 14) writes to
 * it with aligned instructions where AddressSanitizer has moved the frame to a place that is not.
 */
#ifndef OLE_SRC_BASE_VECTOR_H
#define OLE_SRC_BASE_VECTOR_H

#include <string.h>

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
#define INLINE static inline __attribute__((always_inline))

typedef OLE_SCALAR vec __attribute__((vector_size(VL * sizeof(OLE_SCALAR))));
typedef vec anywhere __attribute__((aligned(sizeof(OLE_SCALAR)), may_alias));

INLINE vec load(const OLE_SCALAR *p) {
    return *(const anywhere *)p;
}

INLINE void store(OLE_SCALAR *p, vec v) {
    *(anywhere *)p = v;
}

INLINE vec splat(OLE_SCALAR x) {
    return x - (vec){0};
}

/* In halves, so that every instruction set adds in the same order. */
INLINE OLE_SCALAR sum_lanes(vec v) {
    OLE_SCALAR s[VL];
    memcpy(s, &v, sizeof s);
    for (int half = VL / 2; half; half /= 2)
        for (int i = 0; i < half; i++)
            s[i] += s[i + half];
    return s[0];
}

#endif
