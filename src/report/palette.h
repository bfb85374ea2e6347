/*
 * src/report/palette.h - colours that can be told apart: of series and groups, and of a scale.
 */
#ifndef OLE_SRC_REPORT_PALETTE_H
#define OLE_SRC_REPORT_PALETTE_H

#include <stdint.h>

enum { OLE_COLOURS = 10, OLE_MARKERS = 10, OLE_SCALE_STEPS = 255, OLE_SCALE_NONE = 255 };
enum {
    OLE_CLASS_COLOURS = 2 * OLE_COLOURS,
    OLE_CLASS_SHAPES = 7, /* odd, so that a colour meets every shape */
    OLE_CLASS_MARKS = OLE_CLASS_COLOURS * OLE_CLASS_SHAPES
};

/* 0xRRGGBB of series i: those of Okabe and Ito first; repeated after OLE_COLOURS. */
uint32_t ole_palette_colour(int i);

/* 0xRRGGBB of class i on a map: the colours of series, then a lighter or darker shade of each;
 * repeated after OLE_CLASS_COLOURS.  With the shapes of ole_palette_class_shape(), one colour and
 * shape are of one class up to OLE_CLASS_MARKS classes. */
uint32_t ole_palette_class_colour(int i);
int ole_palette_class_shape(int i);

/* The same colour on dark paper: lighter, so that it stands out. */
uint32_t ole_palette_dark(uint32_t rgb);

/* [256]: a scale from light to dark whose lightness falls evenly, and grey for "no number". */
void ole_palette_scale(uint32_t scale[256]);

/* Whether black is readable on a colour (else white is). */
int ole_palette_is_light(uint32_t rgb);

#endif
