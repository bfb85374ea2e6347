/*
 * src/report/page/page_parts.h - a page while it is made, shared by page*.c.
 */
#ifndef OLE_SRC_REPORT_PAGE_PAGE_PARTS_H
#define OLE_SRC_REPORT_PAGE_PAGE_PARTS_H

#include "report/page.h"
#include "report/text.h"

/* Thumbnails packed into one image, row by row; maps of the same images share it. */
typedef struct ole_sprite {
    int width, height, columns; /* of a tile; tiles per row */
    const char *type;           /* "image/png" */
    uint64_t hash;              /* of the images */
    int map;                    /* whose it is in the page */
} ole_sprite;

/* Shrinks `images` and packs them into at most about `budget` bytes. */
ole_status ole_sprite_make(ole_sprite *sprite, const ole_page_images *images, size_t budget,
                           ole_text *bytes, ole_error *error);

enum { OLE_PAGE_SPRITES = 16 };

struct ole_page {
    char *title, *subtitle;
    ole_text headlines, navigation, body;
    int sections, maps;
    int refresh; /* seconds; 0: never */
    bool in_section, in_grid;
    ole_sprite sprites[OLE_PAGE_SPRITES];
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

/* Where the blocks of a heat map begin and end, whose means the table has; nothing without any. */
void ole_page_add_blocks(ole_text *out, const ole_figure *figure);

#endif
