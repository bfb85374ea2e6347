/* src/linalg/cut.h - which singular values count: σ > max(absolute, relative * σ_max). */
#ifndef OLE_SRC_LINALG_CUT_H
#define OLE_SRC_LINALG_CUT_H

typedef struct ole_cut {
    double absolute;
    double relative;
} ole_cut;

/* The threshold for a matrix whose largest singular value is `largest`. */
static inline double ole_cut_at(ole_cut cut, double largest) {
    return cut.absolute > cut.relative * largest ? cut.absolute : cut.relative * largest;
}

#endif
