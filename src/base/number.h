/*
 * src/base/number.h - numbers in files and options, with a point in every locale.
 *
 * The program may have called setlocale().  In many locales printf() then writes 0,5 and strtod()
 * reads 0.5 as 0, and a model could be neither stored nor loaded.
 */
#ifndef OLE_SRC_BASE_NUMBER_H
#define OLE_SRC_BASE_NUMBER_H

#include "base/export.h"

enum { OLE_NUMBER_TEXT = 32 }; /* room for a number of 17 digits */

/* strtod() of the C locale. */
OLE_INTERNAL double ole_number_read(const char *text, char **end);

/* "%.*g" of the C locale, with up to 17 digits; returns `room`. */
OLE_INTERNAL const char *ole_number_write(char room[OLE_NUMBER_TEXT], int digits, double value);

#endif
