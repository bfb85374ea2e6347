/*
 * src/report/canvas.c - what holds for every kind of paper: rectangles, and how wide words are.
 */
#include "report/canvas.h"

#include <string.h>

void ole_canvas_rectangle(ole_canvas *canvas, const ole_box *box) {
    canvas->move(canvas, box->x, box->y);
    canvas->line(canvas, box->x + box->width, box->y);
    canvas->line(canvas, box->x + box->width, box->y + box->height);
    canvas->line(canvas, box->x, box->y + box->height);
    canvas->close(canvas);
}

double ole_words_width(const char *text, double size) {
    double width = 0;
    for (const char *s = text; *s;) {
        size_t length = ole_utf8_length(s);
        if (length == 1 && strchr(" .,:;'|!ijlftrI()[]-", *s))
            width += 0.36;
        else if (length == 1 && strchr("mwMW%@", *s))
            width += 0.95;
        else if (length == 1 && *s >= 'A' && *s <= 'Z')
            width += 0.70;
        else
            width += 0.62;
        s += length ? length : 1;
    }
    return width * size;
}
