/*
 * src/report/page_parts.h - a page while it is made, shared by page*.c.
 */
#ifndef OLE_SRC_REPORT_PAGE_PARTS_H
#define OLE_SRC_REPORT_PAGE_PARTS_H

#include "report/page.h"
#include "report/text.h"

/* Thumbnails packed into one image, row by row. */
typedef struct ole_sprite {
    int width, height, columns; /* of a tile; tiles a row */
    const char *type;           /* "image/png" */
    ole_text bytes;
} ole_sprite;

/* Shrinks and packs `images` into at most about `budget` bytes. */
ole_status ole_sprite_make(ole_sprite *sprite, const ole_page_images *images, size_t budget,
                           ole_error *error);
void ole_sprite_free(ole_sprite *sprite);

/* The thumbnails of a map that are in the page already, for maps of the same images. */
typedef struct ole_page_sprite {
    uint64_t hash;
    int map; /* its number */
    int width, height, columns;
} ole_page_sprite;

enum { OLE_PAGE_SPRITES = 16 };

struct ole_page {
    char *title, *subtitle;
    ole_text headlines, navigation, body;
    int sections, maps;
    int refresh; /* seconds; 0: never */
    bool in_section, in_grid;
    ole_page_sprite sprites[OLE_PAGE_SPRITES];
    int sprite_count;
    ole_status status; /* of the first failure */
    ole_error error;
};

/* Opens a section and a grid of figures where there is none, or ends the grid. */
void ole_page_begin_block(ole_page *page, bool grid);

/* Keeps the first failure; nothing for OLE_OK. */
void ole_page_keep(ole_page *page, ole_status status, const ole_error *error);

bool ole_page_check_images(ole_page *page, const ole_page_images *images);

/* The numbers of a figure as a table behind a button (page_numbers.c). */
void ole_page_add_numbers(ole_text *out, const ole_figure *figure, const char *name);

#endif
