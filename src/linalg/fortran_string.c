/*
 * src/linalg/fortran_string.c - the one function of the Fortran runtime that LAPACK inside a static
 * OpenBLAS asks for: joining two strings, for option names such as 'L' // 'N'.  Having it here
 * spares a self-contained library (OLE_STATIC_BLAS) the dependence on libgfortran.so; the static
 * libgfortran cannot go into a shared library, as it is not compiled for that.
 */
#include <stddef.h>
#include <string.h>

void _gfortran_concat_string(size_t room, char *to, size_t length1, const char *from1,
                             size_t length2, const char *from2);

/* Fortran's strings have a length and no end: what is too long is cut, what is short is blanks. */
void _gfortran_concat_string(size_t room, char *to, size_t length1, const char *from1,
                             size_t length2, const char *from2) {
    if (length1 > room) length1 = room;
    if (length2 > room - length1) length2 = room - length1;
    memcpy(to, from1, length1);
    memcpy(to + length1, from2, length2);
    memset(to + length1 + length2, ' ', room - length1 - length2);
}
