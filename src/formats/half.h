/* src/formats/half.h - the numbers that the bits of 16-bit floats stand for. */
#ifndef OLE_SRC_FORMATS_HALF_H
#define OLE_SRC_FORMATS_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* IEEE binary16: a sign, 5 bits of exponent, 10 of mantissa. */
static inline double ole_half_to_double(uint16_t bits) {
    int exponent = bits >> 10 & 0x1f;
    double mantissa = bits & 0x3ff;
    double value;
    if (exponent == 0x1f)
        value = mantissa == 0 ? INFINITY : NAN;
    else if (exponent == 0)
        value = ldexp(mantissa, -24);
    else
        value = ldexp(mantissa + 1024, exponent - 25);
    return bits >> 15 ? -value : value;
}

/* bfloat16: the upper half of a float. */
static inline float ole_bfloat_to_float(uint16_t bits) {
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

#endif
