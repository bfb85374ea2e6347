/*
 * src/report/page/page_map.c - the map of points: its data and controls as HTML, which map.js
 * draws.
 *
 * Places are rounded to 1/65535 of the longer side.  Maps of the same images, as of two networks on
 * one test set, share their thumbnails.
 */
#include "base/fnv.h"
#include "report/page/page_parts.h"
#include "report/palette.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPRITE_BUDGET = 3600000 };

static bool check_map(ole_page *page, const ole_page_map *map) {
    ole_error error;
    ole_status status = OLE_OK;
    if (!map || map->count < 1 || !map->at || !map->labels || map->classes < 1 ||
        map->classes > OLE_PAGE_MAP_CLASSES || !map->names)
        status = ole_fail(&error, OLE_ERROR_ARGUMENT,
                          "page: a map needs points, labels and 1 to %d named classes",
                          OLE_PAGE_MAP_CLASSES);
    for (int64_t i = 0; status == OLE_OK && i < map->count; i++) {
        if (!isfinite(map->at[2 * i]) || !isfinite(map->at[2 * i + 1]))
            status = ole_fail(&error, OLE_ERROR_DATA, "page: point %lld of the map is not finite",
                              (long long)i);
        else if (map->labels[i] < 0 || map->labels[i] >= map->classes)
            status = ole_fail(&error, OLE_ERROR_ARGUMENT,
                              "page: label %d of point %lld is not among the map's %d classes",
                              (int)map->labels[i], (long long)i, map->classes);
    }
    if (status == OLE_OK && map->images && map->images->count != map->count)
        status = ole_fail(&error, OLE_ERROR_ARGUMENT, "page: %lld images for %lld points of a map",
                          (long long)map->images->count, (long long)map->count);
    ole_page_keep(page, status, &error);
    return status == OLE_OK && (!map->images || ole_page_check_images(page, map->images));
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static void put_16(uint8_t *to, unsigned value) {
    to[0] = (uint8_t)value;
    to[1] = (uint8_t)(value >> 8);
}

/* x and y of each point, the map in the middle of a square. */
static void quantise(const ole_page_map *map, uint8_t *to) {
    double low[2] = {HUGE_VAL, HUGE_VAL}, high[2] = {-HUGE_VAL, -HUGE_VAL};
    for (int64_t i = 0; i < 2 * map->count; i++) {
        low[i % 2] = fmin(low[i % 2], map->at[i]);
        high[i % 2] = fmax(high[i % 2], map->at[i]);
    }
    double side = fmax(fmax(high[0] - low[0], high[1] - low[1]), 1e-300);
    for (int64_t i = 0; i < 2 * map->count; i++) {
        double middle = low[i % 2] + (high[i % 2] - low[i % 2]) / 2;
        double share = 0.5 + (map->at[i] - middle) / side;
        put_16(to + 2 * i, (unsigned)fmin(65535, fmax(0, share * 65535 + 0.5)));
    }
}

/* data-at and data-labels of the canvas. */
static void add_points(ole_page *page, const ole_page_map *map) {
    uint8_t *bytes = malloc((size_t)map->count * 4);
    if (!bytes) {
        page->body.failed = true;
        return;
    }
    quantise(map, bytes);
    ole_text_add(&page->body, " data-at=\"");
    ole_text_base64(&page->body, bytes, (size_t)map->count * 4);
    for (int64_t i = 0; i < map->count; i++)
        put_16(bytes + 2 * i, (unsigned)map->labels[i]);
    ole_text_add(&page->body, "\" data-labels=\"");
    ole_text_base64(&page->body, bytes, (size_t)map->count * 2);
    ole_text_add(&page->body, "\"");
    free(bytes);
}

/* ---- Thumbnails ---------------------------------------------------------------------------- */

/* Packs the thumbnails and embeds them, unless the page has them; NULL after a failure. */
static const ole_sprite *embed_sprite(ole_page *page, const ole_page_images *images) {
    size_t size = (size_t)images->count * (size_t)images->width * (size_t)images->height *
                  (size_t)images->channels;
    uint64_t hash =
        ole_fnv64(images->pixels, size) + (uint64_t)(8 * images->width + images->channels);
    for (int i = 0; i < page->sprite_count; i++)
        if (page->sprites[i].hash == hash) return &page->sprites[i];
    ole_sprite sprite;
    ole_text bytes = {0};
    ole_error error;
    ole_status status = ole_sprite_make(&sprite, images, SPRITE_BUDGET, &bytes, &error);
    ole_page_keep(page, status, &error);
    if (status != OLE_OK) return NULL;
    ole_text_format(&page->body, "<img hidden alt=\"\" id=\"sprite-%d\" src=\"data:%s;base64,",
                    page->maps, sprite.type);
    ole_text_base64(&page->body, bytes.bytes, bytes.size);
    ole_text_add(&page->body, "\">\n");
    ole_text_free(&bytes);
    sprite.hash = hash;
    sprite.map = page->maps;
    int at = page->sprite_count < OLE_PAGE_SPRITES ? page->sprite_count++ : OLE_PAGE_SPRITES - 1;
    page->sprites[at] = sprite;
    return &page->sprites[at];
}

/* ---- HTML ---------------------------------------------------------------------------------- */

static void add_controls(ole_text *out, const ole_page_map *map) {
    ole_text_add(
        out,
        "<div class=\"map-bar\">\n"
        "<button type=\"button\" data-do=\"in\" aria-label=\"Zoom in\">+</button>\n"
        "<button type=\"button\" data-do=\"out\" aria-label=\"Zoom out\">−</button>\n"
        "<button type=\"button\" data-do=\"reset\">Whole map</button>\n"
        "<button type=\"button\" data-do=\"names\" aria-pressed=\"true\">Names</button>\n"
        "<span class=\"hint\"><span class=\"mouse\">Drag to move, Ctrl + scroll to zoom, click to "
        "keep a point. Keys: arrows move, + and − zoom, 0 shows the whole map, n and p step "
        "through the points.</span><span class=\"touch\">Two fingers "
        "move and zoom, a tap keeps a point.</span></span>\n</div>\n<div "
        "class=\"map-bar\">\n"
        "<label class=\"search\">Find a class <input type=\"search\" autocomplete=\"off\" "
        "spellcheck=\"false\"></label>\n"
        "<button type=\"button\" data-do=\"all\">Show all</button>\n"
        "<button type=\"button\" data-do=\"none\">Hide all</button>\n"
        "</div>\n<fieldset class=\"classes\"><legend>Classes</legend>\n");
    for (int c = 0; c < map->classes; c++) {
        unsigned colour = (unsigned)ole_palette_class_colour(c);
        int shape = ole_palette_class_shape(c);
        ole_text_format(out,
                        "<label><input type=\"checkbox\" checked data-colour=\"#%06x\" "
                        "data-shape=\"%d\"><span class=\"swatch shape-%d\" "
                        "style=\"background:light-dark(#%06x,#%06x)\"></span>",
                        colour, shape, shape, colour, (unsigned)ole_palette_dark(colour));
        ole_text_between(out, "", map->names[c] ? map->names[c] : "?", "</label>\n");
    }
    ole_text_add(out, "</fieldset>\n");
}

/* The captions of the images, a line each. */
static void add_files(ole_text *out, const ole_page_images *images) {
    ole_text_add(out, " data-files=\"");
    for (int64_t i = 0; i < images->count; i++) {
        char name[256] = "";
        if (images->captions[i]) snprintf(name, sizeof name, "%s", images->captions[i]);
        for (char *end = name; (end = strchr(end, '\n'));)
            *end = ' ';
        ole_text_between(out, i > 0 ? "\n" : "", name, "");
    }
    ole_text_add(out, "\"");
}

void ole_page_add_map(ole_page *page, const char *caption, const ole_page_map *map) {
    if (!check_map(page, map)) return;
    ole_text *out = &page->body;
    page->maps++;
    ole_page_begin_block(page, true);
    ole_text_add(out, "<figure class=\"map\">\n");
    const ole_sprite *sprite = map->images ? embed_sprite(page, map->images) : NULL;
    if (map->title) ole_text_between(out, "<p class=\"title\">", map->title, "</p>\n");
    ole_text_add(out, "<div class=\"map-stage\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"");
    ole_text_format(out, "Map of %lld points in %d classes. ", (long long)map->count, map->classes);
    ole_text_between(out, "", map->title, map->title && caption ? ". " : "");
    ole_text_between(out, "", caption, "\"");
    add_points(page, map);
    if (map->images && map->images->captions) add_files(out, map->images);
    if (sprite)
        ole_text_format(out, " data-sprite=\"sprite-%d\" data-tile=\"%d %d %d\"", sprite->map,
                        sprite->width, sprite->height, sprite->columns);
    ole_text_format(
        out,
        "></canvas>\n<div class=\"map-tip\" hidden>%s<span><b></b><small></small></span>"
        "</div>\n<div class=\"map-advice\" hidden></div>\n<div class=\"silent\" "
        "aria-live=\"polite\"></div></div>\n",
        sprite ? "<canvas class=\"pixels\" width=\"1\" height=\"1\" "
                 "aria-hidden=\"true\"></canvas>"
               : "");
    add_controls(out, map);
    if (caption) ole_text_between(out, "<figcaption>", caption, "</figcaption>\n");
    ole_text_add(out, "</figure>\n");
}
