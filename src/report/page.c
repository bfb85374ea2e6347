/*
 * src/report/page.c - pages: headlines, sections, figures, tables and images as HTML, and the file.
 *
 * Content becomes HTML as it is added.  The frame, the style and the script are the files of
 * src/report/page/, which the build embeds in the library.
 */
#include "base/atomic_file.h"
#include "report/figure_parts.h"
#include "report/page/page_parts.h"
#include "report/page_files.h"
#include "report/palette.h"
#include "report/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A page's life ------------------------------------------------------------------------- */

const char *ole_page_data_name(const char *data) {
    if (strncmp(data, "folder:", 7) != 0) return data;
    const char *name = data + 7;
    for (const char *at = name; *at; at++)
        if (at[0] == '/' && at[1] != '\0' && at[1] != '/') name = at + 1;
    return name;
}

ole_status ole_page_create(ole_page **page, const char *title, const char *subtitle,
                           ole_error *error) {
    if (!page || !title)
        return ole_fail(error, OLE_ERROR_ARGUMENT, "page: needs an output and a title");
    ole_page *made = calloc(1, sizeof *made);
    if (made) {
        made->title = strdup(title);
        made->subtitle = strdup(subtitle ? subtitle : "");
    }
    if (!made || !made->title || !made->subtitle) {
        ole_page_free(made);
        return ole_fail(error, OLE_ERROR_MEMORY, "page: out of memory");
    }
    *page = made;
    return OLE_OK;
}

void ole_page_free(ole_page *page) {
    if (!page) return;
    free(page->title);
    free(page->subtitle);
    ole_text_free(&page->headlines);
    ole_text_free(&page->navigation);
    ole_text_free(&page->body);
    free(page);
}

void ole_page_keep(ole_page *page, ole_status status, const ole_error *error) {
    if (status == OLE_OK || page->status != OLE_OK) return;
    page->status = status;
    page->error = *error;
}

void ole_page_fail(ole_page *page, ole_status status, const char *message) {
    ole_error error;
    if (page) ole_page_keep(page, ole_fail(&error, status, "%s", message), &error);
}

/* Keeps that an argument is wrong. */
static void keep_argument(ole_page *page, const char *what) {
    ole_error error;
    ole_page_keep(page, ole_fail(&error, OLE_ERROR_ARGUMENT, "page: %s", what), &error);
}

/* ---- Blocks -------------------------------------------------------------------------------- */

static void end_grid(ole_page *page) {
    if (page->in_grid) ole_text_add(&page->body, "</div>\n");
    page->in_grid = false;
}

static void end_section(ole_page *page) {
    end_grid(page);
    if (page->in_section) ole_text_add(&page->body, "</section>\n");
    page->in_section = false;
}

void ole_page_begin_block(ole_page *page, bool grid) {
    if (!page->in_section) ole_text_add(&page->body, "<section>\n");
    page->in_section = true;
    if (!grid) end_grid(page);
    if (grid && !page->in_grid) ole_text_add(&page->body, "<div class=\"grid\">\n");
    page->in_grid = grid;
}

/* Text whose numbers stay on one line: no break beside "±" or before "%". */
static void add_unbroken(ole_text *out, const char *text) {
    static const char sign[] = "±";
    const size_t size = sizeof sign - 1;
    char *copy = strdup(text), *rest = copy;
    if (!copy) out->failed = true;
    for (char *at; rest && (at = strchr(rest, ' ')); rest = at + 1) {
        bool kept = at[1] == '%' || strncmp(at + 1, sign, size) == 0 ||
                    (at >= rest + size && strncmp(at - size, sign, size) == 0);
        *at = '\0';
        ole_text_escaped(out, rest);
        ole_text_add(out, kept ? "\u00a0" : " ");
    }
    if (rest) ole_text_escaped(out, rest);
    free(copy);
}

static void add_change(ole_text *out, const ole_page_change *c) {
    if (isnan(c->difference)) return;
    bool better = c->less_is_better ? c->difference < 0 : c->difference > 0;
    if (c->difference == 0 || fabs(c->difference) <= c->spread)
        ole_text_add(out, "<span class=\"same\">≈ about the same</span> ");
    else
        ole_text_format(out, "<span class=\"%s\">%s %s</span> ", better ? "better" : "worse",
                        c->difference > 0 ? "▲" : "▼", better ? "better" : "worse");
}

void ole_page_headline(ole_page *page, const char *label, const char *value, const char *note) {
    ole_page_compared(page, label, value, note, NULL);
}

void ole_page_compared(ole_page *page, const char *label, const char *value, const char *note,
                       const ole_page_change *change) {
    ole_text *out = &page->headlines;
    if (!label || !value) {
        keep_argument(page, "a headline needs a label and a value");
        return;
    }
    ole_text_between(out, "<div class=\"headline\"><dt>", label, "</dt><dd class=\"value\">");
    ole_text_between(out, "", value, "</dd>");
    if (note) {
        ole_text_add(out, "<dd class=\"note\">");
        if (change) add_change(out, change);
        add_unbroken(out, note);
        ole_text_add(out, "</dd>");
    }
    ole_text_add(out, "</div>\n");
}

void ole_page_refresh(ole_page *page, int seconds) {
    page->refresh = seconds;
}

void ole_page_section(ole_page *page, const char *heading) {
    if (!heading) {
        keep_argument(page, "a section needs a heading");
        return;
    }
    end_section(page);
    int number = ++page->sections;
    ole_text_format(&page->body, "<section aria-labelledby=\"section-%d\">\n<h2 id=\"section-%d\">",
                    number, number);
    ole_text_between(&page->body, "", heading, "</h2>\n");
    page->in_section = true;
    ole_text_format(&page->navigation, "<li><a href=\"#section-%d\">", number);
    ole_text_between(&page->navigation, "", heading, "</a></li>\n");
}

void ole_page_text(ole_page *page, const char *paragraph) {
    ole_page_begin_block(page, false);
    ole_text_between(&page->body, "<p>", paragraph, "</p>\n");
}

/* The names of the groups of points, for the script that shows the one under the pointer. */
static void add_series_names(ole_text *out, const ole_figure *f) {
    ole_text_add(out, " data-series=\"");
    for (int i = 0; i < f->series_count; i++)
        if (!f->series[i].dotted) ole_text_between(out, i > 0 ? "\n" : "", f->series[i].name, "");
    ole_text_add(out, "\"");
}

/* The points of a figure in space for the script that turns it: x, y and z in 1/32767 of the
 * longest, and how many points each series has. */
static void add_space(ole_text *out, const ole_figure *f) {
    int64_t count = 0;
    ole_text_add(out, " data-counts=\"");
    for (int i = 0; i < f->series_count; i++) {
        if (f->series[i].dotted) continue;
        ole_text_format(out, count ? " %lld" : "%lld", (long long)f->series[i].count);
        count += f->series[i].count;
    }
    double longest = 1e-300;
    for (int64_t i = 0; i < 3 * count; i++)
        longest = fmax(longest, fabs(f->space[i]));
    uint8_t *bytes = malloc((size_t)count * 6 + 1);
    for (int64_t i = 0; bytes && i < 3 * count; i++) {
        unsigned value = (unsigned)lround(f->space[i] / longest * 32767);
        bytes[2 * i] = (uint8_t)value;
        bytes[2 * i + 1] = (uint8_t)(value >> 8);
    }
    ole_text_add(out, "\" data-space=\"");
    if (bytes)
        ole_text_base64(out, bytes, (size_t)count * 6);
    else
        out->failed = true;
    ole_text_add(out, "\"");
    free(bytes);
}

/* Where an axis begins and ends, for the script that shows values under the pointer. */
static void add_ends(ole_text *out, const char *name, bool log, const double ends[2]) {
    ole_text_format(out, " data-%s=\"%s", name, log ? "log" : "linear");
    for (int i = 0; i < 2; i++) { /* in scientific notation, of integers: no locale's comma */
        int power = ends[i] != 0 ? (int)floor(log10(fabs(ends[i]))) - 9 : 0;
        ole_text_format(out, " %llde%d", llround(ends[i] / pow(10, power)), power);
    }
    ole_text_add(out, "\"");
}

/*
 * The drawing of a figure for narrow columns, such as on phones.  Scaled down from its full size,
 * its text would be 6 pixels high; drawn for the width of a phone it stays at 10, with fewer ticks.
 */
static ole_status draw_narrow(const ole_figure *figure, char **svg, ole_error *error) {
    const double width = 300;
    ole_figure narrow = *figure;
    narrow.width = fmin(width, figure->width);
    narrow.height = figure->height * narrow.width / figure->width;
    if (figure->kind != OLE_FIGURE_HEATMAP) /* the legend takes more rows */
        narrow.height = fmin(figure->height, narrow.height + 50);
    return ole_figure_svg(&narrow, svg, error);
}

void ole_page_figure(ole_page *page, const ole_figure *figure, const char *caption) {
    char *svg = NULL, *narrow = NULL;
    ole_error error;
    ole_status status = ole_figure_svg(figure, &svg, &error);
    if (status == OLE_OK) status = draw_narrow(figure, &narrow, &error);
    ole_page_keep(page, status, &error);
    if (status != OLE_OK) {
        free(svg);
        return;
    }
    ole_page_begin_block(page, true);
    ole_text_add(&page->body, figure->space ? "<figure class=\"space\"" : "<figure");
    if (figure->space) add_space(&page->body, figure);
    if (figure->kind == OLE_FIGURE_SCATTER) add_series_names(&page->body, figure);
    if (figure->kind == OLE_FIGURE_HEATMAP) {
        ole_page_add_blocks(&page->body, figure);
    } else if (!figure->space) {
        double x[2], y[2];
        ole_figure_ends(figure, x, y);
        add_ends(&page->body, "x", figure->x_log, x);
        if (figure->kind == OLE_FIGURE_SCATTER) add_ends(&page->body, "y", figure->y_log, y);
    }
    ole_text_add(&page->body, ">\n");
    ole_text_add(&page->body, svg);
    ole_text_add(&page->body, "<div class=\"narrow\">\n");
    ole_text_add(&page->body, narrow);
    ole_text_add(&page->body, "</div>\n");
    if (caption) ole_text_between(&page->body, "<figcaption>", caption, "</figcaption>\n");
    ole_page_add_numbers(&page->body, figure, figure->title ? figure->title : caption);
    ole_text_add(&page->body, "</figure>\n");
    free(svg);
    free(narrow);
}

/* Longer than "28.68 ± 0.67 %" and "26 h 12 min", shorter than "2 of 164 epochs, 20 samples". */
enum { LONGEST_NUMBER = 24 };

/*
 * Columns of numbers stand to the right and on one line, others to the left; "" and "–" (no number)
 * are either.
 */
static bool is_numeric(const char *const *cells, int64_t rows, int64_t columns, int64_t column) {
    for (int64_t r = 0; r < rows; r++) {
        const char *text = cells[r * columns + column];
        bool is_minus = text && strncmp(text, "−", strlen("−")) == 0;
        if (!text || strcmp(text, "–") == 0) continue;
        if (!strchr("0123456789.+-", text[0]) && !is_minus) return false;
        if (strlen(text) > LONGEST_NUMBER) return false;
    }
    return true;
}

/* A row's heading, in <th>: long ones, such as "softmax+center", break after a plus or a slash. */
static void add_row_heading(ole_text *out, const char *text) {
    ole_text_add(out, "<th scope=\"row\">");
    for (const char *rest = text; rest && *rest;) {
        char part[64];
        size_t length = strcspn(rest, "+/");
        if (rest[length]) length++;
        if (length >= sizeof part || rest[length] == '\0') {
            ole_text_escaped(out, rest);
            break;
        }
        memcpy(part, rest, length);
        part[length] = '\0';
        ole_text_between(out, "", part, rest[length] == ' ' ? "" : "<wbr>");
        rest += length;
    }
    ole_text_add(out, "</th>");
}

void ole_page_table(ole_page *page, const char *caption, int64_t rows, int64_t columns,
                    const char *const *names, const char *const *cells) {
    ole_text *out = &page->body;
    if (rows < 0 || columns < 1 || !names || (rows > 0 && !cells)) {
        keep_argument(page, "a table needs columns with names, and cells");
        return;
    }
    ole_page_begin_block(page, false);
    ole_text_add(out, "<div class=\"table\"><div class=\"scroll\" tabindex=\"0\" role=\"region\"");
    ole_text_between(out, " aria-label=\"", caption ? caption : "table", "\"><table>\n<thead><tr>");
    for (int64_t c = 0; c < columns; c++)
        ole_text_between(out,
                         is_numeric(cells, rows, columns, c) ? "<th scope=\"col\">"
                                                             : "<th scope=\"col\" class=\"words\">",
                         names[c], "</th>");
    ole_text_add(out, "</tr></thead>\n<tbody>\n");
    for (int64_t r = 0; r < rows; r++) {
        ole_text_add(out, "<tr>");
        add_row_heading(out, cells[r * columns]);
        for (int64_t c = 1; c < columns; c++)
            ole_text_between(out,
                             is_numeric(cells, rows, columns, c) ? "<td>" : "<td class=\"words\">",
                             cells[r * columns + c], "</td>");
        ole_text_add(out, "</tr>\n");
    }
    ole_text_add(out, "</tbody></table></div>");
    if (caption) ole_text_between(out, "<div class=\"caption\">", caption, "</div>");
    ole_text_add(out, "</div>\n");
}

/* ---- Images -------------------------------------------------------------------------------- */

bool ole_page_check_images(ole_page *page, const ole_page_images *images) {
    bool good = images && images->count >= 0 && images->width >= 1 && images->height >= 1 &&
                images->width <= 4096 && images->height <= 4096 &&
                (images->channels == 1 || images->channels == 3) &&
                (images->count == 0 || images->pixels);
    if (!good) keep_argument(page, "images need pixels, sides of 1 to 4096 and 1 or 3 channels");
    return good;
}

/* Photographs are a tenth of the size as JPEG; small drawings keep their pixels. */
static ole_status encode(const ole_picture *picture, ole_text *bytes, bool *jpeg,
                         ole_error *error) {
    *jpeg = picture->channels == 3 && picture->width >= 48 && ole_picture_has_jpeg();
    return *jpeg ? ole_picture_jpeg(picture, 88, bytes, error)
                 : ole_picture_png(picture, bytes, error);
}

static void add_image(ole_page *page, const ole_page_images *images, int64_t i) {
    size_t size = (size_t)images->width * (size_t)images->height * (size_t)images->channels;
    const ole_picture picture = {.width = images->width,
                                 .height = images->height,
                                 .channels = images->channels,
                                 .pixels = images->pixels + (size_t)i * size};
    const char *caption = images->captions ? images->captions[i] : NULL;
    const ole_short_text number = ole_printed("image %lld", (long long)i + 1);
    ole_text bytes = {0}, *out = &page->body;
    ole_error error;
    bool jpeg;
    ole_page_keep(page, encode(&picture, &bytes, &jpeg, &error), &error);
    ole_text_format(out, "<li><img%s width=\"%d\" height=\"%d\"",
                    images->width < 96 ? " class=\"pixels\"" : "", images->width, images->height);
    ole_text_between(out, " alt=\"", caption ? caption : number.text, "\"");
    ole_text_format(out, " src=\"data:image/%s;base64,", jpeg ? "jpeg" : "png");
    ole_text_base64(out, bytes.bytes, bytes.size);
    ole_text_add(out, "\">");
    char *lines = caption ? strdup(caption) : NULL, *rest = lines;
    if (caption && !lines) out->failed = true;
    for (const char *line = lines ? strsep(&rest, "\n") : NULL; line; line = strsep(&rest, "\n"))
        ole_text_between(out, line == lines ? "<b>" : "<span>", line,
                         line == lines ? "</b>" : "</span>");
    ole_text_add(out, "</li>\n");
    free(lines);
    ole_text_free(&bytes);
}

void ole_page_add_images(ole_page *page, const char *caption, const ole_page_images *images) {
    if (!ole_page_check_images(page, images)) return;
    ole_page_begin_block(page, false);
    ole_text_add(&page->body, "<figure>\n<ul class=\"strip\">\n");
    for (int64_t i = 0; i < images->count; i++)
        add_image(page, images, i);
    ole_text_add(&page->body, "</ul>\n");
    if (caption) ole_text_between(&page->body, "<figcaption>", caption, "</figcaption>\n");
    ole_text_add(&page->body, "</figure>\n");
}

/* ---- The file ------------------------------------------------------------------------------ */

/* The replacement of {{name}} in the template. */
static void add_part(const ole_page *page, const char *name, ole_text *out) {
    if (strcmp(name, "title") == 0) ole_text_escaped(out, page->title);
    if (strcmp(name, "version") == 0) ole_text_add(out, ole_version());
    if (strcmp(name, "refresh") == 0 && page->refresh > 0)
        ole_text_format(out, "<meta http-equiv=\"refresh\" content=\"%d\">", page->refresh);
    if (strcmp(name, "style") == 0) {
        ole_text_add(out, page_style);
        for (int i = 0; i < OLE_COLOURS; i++) { /* of series, which figures name s0 to s9 */
            unsigned light = ole_palette_colour(i), dark = ole_palette_dark(light);
            ole_text_format(out,
                            "svg .fill-s%d { fill: light-dark(#%06x, #%06x); }\n"
                            "svg .stroke-s%d { stroke: light-dark(#%06x, #%06x); }\n",
                            i, light, dark, i, light, dark);
        }
    }
    if (strcmp(name, "script") == 0) ole_text_add(out, page_script);
    if (strcmp(name, "script_hash") == 0) ole_text_add(out, page_script_hash);
    if (strcmp(name, "subtitle") == 0 && page->subtitle[0])
        ole_text_between(out, "<p class=\"subtitle\">", page->subtitle, "</p>");
    if (strcmp(name, "navigation") == 0 && page->sections > 1) {
        ole_text_add(out, "<nav aria-label=\"Sections\"><ul class=\"wide\">\n");
        ole_text_bytes(out, page->navigation.bytes, page->navigation.size);
        ole_text_add(out, "</ul></nav>");
    }
    if (strcmp(name, "headlines") == 0 && page->headlines.size > 0) {
        ole_text_add(out, "<dl class=\"headlines\">\n");
        ole_text_bytes(out, page->headlines.bytes, page->headlines.size);
        ole_text_add(out, "</dl>");
    }
    if (strcmp(name, "body") == 0) ole_text_bytes(out, page->body.bytes, page->body.size);
}

static void fill_template(const ole_page *page, ole_text *out) {
    const char *at = page_template;
    for (const char *open; (open = strstr(at, "{{"));) {
        char name[32];
        const char *close = strstr(open, "}}");
        size_t length = (size_t)(close - open) - 2;
        memcpy(name, open + 2, length);
        name[length] = '\0';
        ole_text_bytes(out, at, (size_t)(open - at));
        add_part(page, name, out);
        at = close + 2;
    }
    ole_text_add(out, at);
}

ole_status ole_page_write(ole_page *page, const char *path, ole_error *error) {
    if (!page) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_page_write: page is NULL");
    end_section(page);
    if (page->status != OLE_OK) {
        if (error) *error = page->error;
        return page->status;
    }
    if (!path) return ole_fail(error, OLE_ERROR_ARGUMENT, "page: the path is NULL");
    ole_text out = {0};
    fill_template(page, &out);
    ole_status status = OLE_OK;
    if (out.failed || page->body.failed || page->headlines.failed || page->navigation.failed)
        status = ole_fail(error, OLE_ERROR_MEMORY, "page: out of memory");
    if (status == OLE_OK) status = ole_atomic_file_put(path, out.bytes, out.size, error);
    ole_text_free(&out);
    return status;
}
