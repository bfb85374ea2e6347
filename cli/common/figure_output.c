/*
 * cli/common/figure_output.c - figures as files and on a page.
 */
#include "common/figure_output.h"

#include "common/common.h"
#include "common/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

bool figures_requested(const figure_options *options) {
    return options->folder || options->page;
}

int figure_output_open(figure_output *p, const char *command, const figure_options *options,
                       const char *title, const char *subtitle) {
    ole_error error;
    *p = (figure_output){.command = command, .options = options};
    if (options->folder && mkdir(options->folder, 0777) != 0 && errno != EEXIST)
        return fail_command(command, "%s: cannot create the folder: %s", options->folder,
                            strerror(errno));
    if (ole_page_create(&p->page, title, subtitle, &error) != OLE_OK)
        return fail_command(command, "%s", error.message);
    return EXIT_DONE;
}

/* A format that the build cannot write is reported once; the others remain. */
static void save(figure_output *p, const ole_figure *figure, const char *path) {
    ole_error error;
    ole_status status =
        own_file_ready(path, false, &error) ? ole_figure_save(figure, path, &error) : error.status;
    if (status == OLE_OK || (status == OLE_ERROR_UNSUPPORTED && p->told)) return;
    fail_command(p->command, "%s", error.message);
    p->told = true;
    p->failed = status != OLE_ERROR_UNSUPPORTED;
}

void figure_output_save(figure_output *p, const ole_figure *figure, const char *name) {
    static const char *const ends[] = {"svg", "pdf", "png"};
    for (int i = 0; i < 3 && p->options->folder && !p->failed; i++) {
        char path[4096];
        int length = snprintf(path, sizeof path, "%s/%s.%s", p->options->folder, name, ends[i]);
        p->failed = length >= (int)sizeof path;
        if (p->failed)
            fail_command(p->command, "--figures: the path is too long");
        else
            save(p, figure, path);
    }
}

void figure_output_add(figure_output *p, const ole_figure *figure, const char *name,
                       const char *caption) {
    if (p->options->page) ole_page_figure(p->page, figure, caption);
    figure_output_save(p, figure, name);
}

ole_series thin_curve(const char *name, int64_t count, const double *x, const double *y,
                      double to_x[CURVE_POINTS], double to_y[CURVE_POINTS]) {
    int64_t points = count < CURVE_POINTS ? count : CURVE_POINTS;
    for (int64_t i = 0; i < points; i++) {
        int64_t from = points > 1 ? i * (count - 1) / (points - 1) : 0; /* both ends are kept */
        to_x[i] = x[from];
        to_y[i] = y[from];
    }
    return (ole_series){.name = name, .count = points, .x = to_x, .y = to_y};
}

ole_series share_bars(const char *name, int64_t count, const double *values, double low,
                      double high, int bars, double *edges, double *shares) {
    for (int i = 0; i <= bars; i++)
        edges[i] = low + (high - low) * i / bars;
    memset(shares, 0, (size_t)bars * sizeof *shares);
    for (int64_t i = 0; i < count; i++) {
        double place = high > low ? bars * (values[i] - low) / (high - low) : 0.0;
        int bar = !(place > 0.0) ? 0 : place >= bars ? bars - 1 : (int)place;
        shares[bar] += 1.0 / (double)count;
    }
    return (ole_series){.name = name, .count = bars, .x = edges, .y = shares};
}

int figure_output_close(figure_output *p) {
    ole_error error;
    if (p->options->page && !p->failed &&
        ole_page_write(p->page, p->options->page, &error) != OLE_OK) {
        fail_command(p->command, "%s", error.message);
        p->failed = true;
    }
    ole_page_free(p->page);
    return p->failed ? EXIT_FAILED : EXIT_DONE;
}

void figure_output_tell(const figure_options *options, int width) {
    if (options->page) print_lines("%-*s %s\n", width, "page", options->page);
    if (options->folder) print_lines("%-*s %s\n", width, "figures", options->folder);
}
