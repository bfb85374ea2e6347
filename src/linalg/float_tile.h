/*
 * src/linalg/float_tile.h - how many float32 sums a product keeps in registers: MR rows times NV
 * vectors of VL elements, for the instruction set that the file including it is compiled for.
 */
#ifndef OLE_SRC_LINALG_FLOAT_TILE_H
#define OLE_SRC_LINALG_FLOAT_TILE_H

#if defined(__AVX512F__)
enum { VL = 16, MR = 8, NV = 3 };
#elif defined(__AVX2__)
enum { VL = 8, MR = 4, NV = 3 };
#elif defined(OLE_NEON)
enum { VL = 4, MR = 4, NV = 4 };
#else
enum { VL = 4, MR = 4, NV = 2 };
#endif

#endif
