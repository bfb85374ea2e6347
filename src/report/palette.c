/*
 * src/report/palette.c - colours.
 *
 * Series: the eight colours that Okabe and Ito chose for all kinds of colour vision, blue and
 * vermillion first as they differ most, their yellow darkened to be seen on white; two more for ten
 * classes.  Scale: light to dark through green and blue, straight lines in OKLab, a space in which
 * equal steps look equal; it reads the same in grey.
 */
#include "report/palette.h"

#include <math.h>

uint32_t ole_palette_colour(int i) {
    static const uint32_t colours[OLE_COLOURS] = {0x0072b2, 0xd55e00, 0x009e73, 0xcc79a7, 0xe69f00,
                                                  0x56b4e9, 0x7a5195, 0xb8a800, 0x808080, 0x8c510a};
    return colours[i % OLE_COLOURS];
}

static double from_srgb(int byte) {
    double c = byte / 255.0;
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static uint32_t to_srgb(double c) {
    c = c < 0 ? 0 : c > 1 ? 1 : c;
    double s = c <= 0.0031308 ? 12.92 * c : 1.055 * pow(c, 1 / 2.4) - 0.055;
    return (uint32_t)(s * 255 + 0.5);
}

/* Lightness, green to red, blue to yellow (B. Ottosson, 2020). */
static void to_oklab(uint32_t rgb, double lab[3]) {
    double r = from_srgb((int)(rgb >> 16)), g = from_srgb((int)(rgb >> 8 & 255)),
           b = from_srgb((int)(rgb & 255));
    double l = cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
    double m = cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
    double s = cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
    lab[0] = 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s;
    lab[1] = 1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s;
    lab[2] = 0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s;
}

static uint32_t from_oklab(const double lab[3]) {
    double l = pow(lab[0] + 0.3963377774 * lab[1] + 0.2158037573 * lab[2], 3);
    double m = pow(lab[0] - 0.1055613458 * lab[1] - 0.0638541728 * lab[2], 3);
    double s = pow(lab[0] - 0.0894841775 * lab[1] - 1.2914855480 * lab[2], 3);
    uint32_t r = to_srgb(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s);
    uint32_t g = to_srgb(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s);
    uint32_t b = to_srgb(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s);
    return r << 16 | g << 8 | b;
}

uint32_t ole_palette_class_colour(int i) {
    const double shift = 0.17; /* of the lightness, away from white and black */
    uint32_t colour = ole_palette_colour(i);
    if (i / OLE_COLOURS % 2 == 0) return colour;
    double lab[3];
    to_oklab(colour, lab);
    lab[0] += lab[0] > 0.65 ? -shift : shift;
    return from_oklab(lab);
}

uint32_t ole_palette_dark(uint32_t rgb) {
    double lab[3];
    to_oklab(rgb, lab);
    lab[0] = 0.38 + 0.6 * lab[0];
    return from_oklab(lab);
}

int ole_palette_class_shape(int i) {
    return i / OLE_COLOURS % OLE_CLASS_SHAPES;
}

void ole_palette_scale(uint32_t scale[256]) {
    enum { STOPS = 5 };
    static const uint32_t stops[STOPS] = {0xfdfbe4, 0xb5dfc0, 0x4fa8b8, 0x2d5f9e, 0x1b1440};
    double lab[STOPS][3];
    for (int i = 0; i < STOPS; i++)
        to_oklab(stops[i], lab[i]);
    for (int i = 0; i < OLE_SCALE_STEPS; i++) {
        double share = (double)i / (OLE_SCALE_STEPS - 1), mixed[3];
        double lightness = lab[0][0] + share * (lab[STOPS - 1][0] - lab[0][0]);
        int stop = 0;
        while (stop < STOPS - 2 && lab[stop + 1][0] > lightness)
            stop++;
        double between = (lab[stop][0] - lightness) / (lab[stop][0] - lab[stop + 1][0]);
        mixed[0] = lightness;
        for (int k = 1; k < 3; k++)
            mixed[k] = lab[stop][k] + between * (lab[stop + 1][k] - lab[stop][k]);
        scale[i] = from_oklab(mixed);
    }
    scale[OLE_SCALE_NONE] = 0xd0d0d0;
}

int ole_palette_is_light(uint32_t rgb) {
    double luminance = 0.2126 * from_srgb((int)(rgb >> 16)) +
                       0.7152 * from_srgb((int)(rgb >> 8 & 255)) +
                       0.0722 * from_srgb((int)(rgb & 255));
    return luminance > 0.18;
}
