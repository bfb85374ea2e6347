/*
 * cli/pictures.h - what --figures DIR and --out PAGE.html ask for: the same figures as files, and
 * on a page.
 *
 *     pictures p;
 *     int code = pictures_open(&p, "verify", &options, "Verification", "features.npy");
 *     if (code != EXIT_DONE) return code;
 *     pictures_headline(&p, "AUC", "0.99", NULL);
 *     pictures_add(&p, &figure, "roc", "What the figure shows.");
 *     return pictures_close(&p);
 *
 * Without either option all of it does nothing.
 */
#ifndef OLE_CLI_PICTURES_H
#define OLE_CLI_PICTURES_H

#include "args.h"

#include "report/page.h"

typedef struct picture_options {
    const char *folder; /* --figures; NULL: none */
    const char *page;   /* --out; NULL: none */
} picture_options;

/* Two rows of a command's table of options. */
#define PICTURE_OPTIONS(options)                                                                   \
    {"out", OLE_TEXT, &(options)->page, "PAGE.html", .help = "write a report page"}, {             \
        "figures", OLE_TEXT, &(options)->folder, "DIR",                                            \
            .help = "write the figures as SVG, PDF and PNG"                                        \
    }

typedef struct pictures {
    const char *command;
    const picture_options *options;
    ole_page *page; /* NULL: none */
    bool failed;    /* and the reason printed */
    bool told;      /* that a format cannot be written */
} pictures;

/* EXIT_DONE, or the exit code after an error that was printed; then there is nothing to close. */
int pictures_open(pictures *p, const char *command, const picture_options *options,
                  const char *title, const char *subtitle);

/* As the functions of src/report/page.h. */
void pictures_headline(pictures *p, const char *label, const char *value, const char *note);
void pictures_section(pictures *p, const char *heading);
void pictures_text(pictures *p, const char *paragraph);
void pictures_table(pictures *p, const char *caption, int64_t rows, int64_t columns,
                    const char *const *names, const char *const *cells);

/* The figure onto the page, and as NAME.svg, NAME.pdf and NAME.png (with cairo) into the folder. */
void pictures_add(pictures *p, const ole_figure *figure, const char *name, const char *caption);

/* A curve of at most CURVE_POINTS points for a figure: all of them, or some, evenly. */
enum { CURVE_POINTS = 500 };
ole_series thin_curve(const char *name, int64_t count, const double *x, const double *y,
                      double to_x[CURVE_POINTS], double to_y[CURVE_POINTS]);

/* Writes the page. The exit code. */
int pictures_close(pictures *p);

#endif
