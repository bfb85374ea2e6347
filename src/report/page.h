/*
 * src/report/page.h - a report as one HTML file: no network, works from disk, light and dark, phone
 * to desktop.
 *
 *     ole_page *page;
 *     ole_page_create(&page, "STL-10, CNN-5", "softmax + OLÉ, 5 seeds", &error);
 *     ole_page_headline(page, "test error", "25.4 %", "softmax alone 28.7 %");
 *     ole_page_section(page, "Learning curves");
 *     ole_page_figure(page, &figure, "Error of training and test after each epoch.");
 *     ole_page_write(page, "report.html", &error);
 *     ole_page_free(page);
 *
 * Everything added is copied.  Adding does not return an error: ole_page_write() reports the first
 * failure, and leaves the file as it was.
 */
#ifndef OLE_SRC_REPORT_PAGE_H
#define OLE_SRC_REPORT_PAGE_H

#include "base/quote.h"
#include "report/figure.h"

typedef struct ole_page ole_page;

/* The name of data in a title: "photos" for "folder:/home/me/photos", others unchanged. */
OLE_INTERNAL const char *ole_page_data_name(const char *data);

OLE_INTERNAL ole_status ole_page_create(ole_page **page, const char *title, const char *subtitle,
                                        ole_error *error);
OLE_INTERNAL void ole_page_free(ole_page *page);

/* A large number at the top, in the order they are added; note may be NULL. */
OLE_INTERNAL void ole_page_headline(ole_page *page, const char *label, const char *value,
                                    const char *note);

/* How a headline compares with the number in its note, such as that of softmax alone; NULL: no
 * comparison.  An arrow before the note shows better, worse or, if the difference is within
 * `spread`, about the same. */
typedef struct ole_page_change {
    double difference; /* of the headline's number from the other one; NaN: unknown */
    double spread;     /* standard deviation of either; NaN or 0: unknown */
    bool less_is_better;
} ole_page_change;

OLE_INTERNAL void ole_page_compared(ole_page *page, const char *label, const char *value,
                                    const char *note, const ole_page_change *change);

/* Browsers reload the page after this many seconds, such as while training continues. */
OLE_INTERNAL void ole_page_refresh(ole_page *page, int seconds);

OLE_INTERNAL void ole_page_section(ole_page *page, const char *heading);
OLE_INTERNAL void ole_page_text(ole_page *page, const char *paragraph);

/* A figure with its caption, and its numbers as a table behind a button. */
OLE_INTERNAL void ole_page_figure(ole_page *page, const ole_figure *figure, const char *caption);

/* cells [rows, columns], names [columns]. */
OLE_INTERNAL void ole_page_table(ole_page *page, const char *caption, int64_t rows, int64_t columns,
                                 const char *const *names, const char *const *cells);

/* Small pictures: pixels [count, height, width, channels] of bytes, 1 or 3 channels. */
typedef struct ole_page_images {
    int64_t count;
    int width, height, channels;
    const uint8_t *pixels;
    const char *const *captions; /* [count] or NULL; several lines: the first is the heading */
} ole_page_images;

OLE_INTERNAL void ole_page_add_images(ole_page *page, const char *caption,
                                      const ole_page_images *images);

enum { OLE_PAGE_MAP_CLASSES = 10000 }; /* at most, of a map */

/*
 * A map of points that pans, zooms, filters by class and shows the image under the pointer, with
 * its caption (the name of its file).  Maps of the same samples on one page are linked: what is
 * pointed at, picked, searched or filtered in one shows in all.
 */
typedef struct ole_page_map {
    const char *title; /* NULL: none */
    int64_t count;
    const double *at;      /* [count, 2] */
    const int32_t *labels; /* [count] */
    int classes;
    const char *const *names;      /* [classes] */
    const ole_page_images *images; /* NULL, or count of them */
} ole_page_map;

OLE_INTERNAL void ole_page_add_map(ole_page *page, const char *caption, const ole_page_map *map);

/*
 * For a caller that cannot produce its content, such as without memory: ole_page_write() will fail
 * with this status and message, unless something failed before.  A page is whole or not written.
 */
OLE_INTERNAL void ole_page_fail(ole_page *page, ole_status status, const char *message);

/* Writes a temporary file and renames it; reports the first failure of anything added. */
OLE_INTERNAL ole_status ole_page_write(ole_page *page, const char *path, ole_error *error);

#endif
