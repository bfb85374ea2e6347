/* src/data/formats/digits.h - the embedded digits as digits_data.c holds them. */
#ifndef OLE_SRC_DATA_FORMATS_DIGITS_H
#define OLE_SRC_DATA_FORMATS_DIGITS_H

enum { OLE_DIGITS_COUNT = 1797, OLE_DIGITS_SIDE = 8, OLE_DIGITS_TEXT = 1 + 64 + 1 };

/* A label '0' to '9', 64 pixels 'a' (0) to 'q' (16), a zero. */
extern const char ole_digits[OLE_DIGITS_COUNT][OLE_DIGITS_TEXT];

#endif
