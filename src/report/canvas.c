/*
 * src/report/canvas.c - what holds for every kind of paper: rectangles, and how wide words are.
 */
#include "report/canvas.h"

#include <math.h>
#include <string.h>

void ole_canvas_rectangle(ole_canvas *canvas, const ole_box *box) {
    canvas->move(canvas, box->x, box->y);
    canvas->line(canvas, box->x + box->width, box->y);
    canvas->line(canvas, box->x + box->width, box->y + box->height);
    canvas->line(canvas, box->x, box->y + box->height);
    canvas->close(canvas);
}

static double letter_width(const char *s, size_t length) {
    if ((unsigned char)*s >= 0xe3 && length > 2)
        return 1; /* from U+3000 on: Chinese and the like */
    if (length == 1 && strchr(" .,:;'|!ijlftrI()[]-", *s)) return 0.36;
    if (length == 1 && strchr("mwMW%@", *s)) return 0.95;
    return length == 1 && *s >= 'A' && *s <= 'Z' ? 0.70 : 0.62;
}

double ole_words_width(const char *text, double size) {
    double width = 0;
    for (const char *s = text; *s;) {
        size_t length = ole_utf8_length(s);
        width += letter_width(s, length);
        s += length ? length : 1;
    }
    return width * size;
}

const char *ole_words_cut(char out[OLE_WORDS_ROOM], const char *text, double size, double width) {
    static const char more[] = "\u2026";
    bool whole = strlen(text) < OLE_WORDS_ROOM && ole_words_width(text, size) <= width;
    double used = whole ? -HUGE_VAL : letter_width(more, sizeof more - 1) * size;
    size_t fits = 0;
    while (text[fits]) {
        size_t length = ole_utf8_length(text + fits), next = length ? length : 1;
        used += letter_width(text + fits, length) * size;
        if (used > width || fits + next + sizeof more > OLE_WORDS_ROOM) break;
        fits += next;
    }
    if (whole) fits = strlen(text);
    memcpy(out, text, fits);
    memcpy(out + fits, whole ? "" : more, whole ? 1 : sizeof more);
    return out;
}
