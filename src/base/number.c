/* src/base/number.c - numbers in files and options, by the C locale of the calling thread alone. */
#include "base/number.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

/* What the thread had before; where the system has no memory for "C", it keeps that. */
typedef struct borrowed {
    locale_t plain, before;
} borrowed;

static borrowed take_plain(void) {
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    return (borrowed){plain, uselocale(plain)};
}

static void give_back(borrowed b) {
    uselocale(b.before);
    if (b.plain) freelocale(b.plain);
}

double ole_number_read(const char *text, char **end) {
    borrowed b = take_plain();
    double value = strtod(text, end);
    give_back(b);
    return value;
}

const char *ole_number_write(char room[OLE_NUMBER_TEXT], int digits, double value) {
    borrowed b = take_plain();
    snprintf(room, OLE_NUMBER_TEXT, "%.*g", digits, value);
    give_back(b);
    return room;
}
