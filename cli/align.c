/*
 * cli/align.c - `ole align`: the orthogonal map between two embeddings of the same items.
 */
#include "commands.h"
#include "common/common.h"
#include "common/embedding.h"
#include "common/outputs.h"
#include "common/progress.h"

#include <inttypes.h>
#include <math.h>
#include <ole/align.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char align_summary[] = "rotate one embedding onto another of the same items";

typedef struct arguments {
    const char *a, *b, *map;
    const char *apply[2]; /* rows to map, and where to */
    ole_align_options options;
    bool json;
} arguments;

static bool parse(arguments *a, int argc, char **argv, int *code) {
    *a = (arguments){0};
    ole_align_options_init(&a->options);
    a->options.threads = default_threads();
    const arg_positional positionals[] = {
        {"A.npy", &a->a, "[items, dimensions], as .npy, .npz or .csv"},
        {"B.npy", &a->b, "the same items in the same order, in the space to map to"},
        {0},
    };
    const ole_option options[] = {
        {"out", OLE_TEXT, &a->map, "R.npy",
         .help = "write the map R: A R is closest to B; with --centre, its last row is a shift"},
        {"apply", OLE_PAIR, a->apply, "X.npy Z.npy", .help = "map the rows of X, write them to Z"},
        {"centre", OLE_SWITCH, &a->options.centre, .help = "subtract the means of A and B first"},
        THREADS_OPTION(&a->options.threads),
        JSON_OPTION(&a->json),
        {0},
    };
    const arg_command command = {
        .name = "align",
        .summary = align_summary,
        .example = "  $ ole align old.npy new.npy --apply gallery.npy gallery-new.npy\n",
        .about = "Finds the rotation (and reflection) that takes one embedding closest to another\n"
                 "of the same items, such as those of a model before and after retraining. It\n"
                 "keeps lengths and angles, so old features stay comparable with each other, and\n"
                 "become comparable with new ones.\n",
        .positionals = positionals,
        .options = options,
    };
    return args_parse(&command, argc, argv, code);
}

static ole_matrix view(const embedding *e) {
    return (ole_matrix){(void *)e->features, e->rows, e->dim, 0, e->dtype};
}

/* The rows of --apply through the map, in their own type. */
static int apply(const arguments *a, const ole_alignment *fit) {
    const embedding_reader reader = {.command = "align"};
    embedding x;
    bool opened = embedding_open(&x, &reader, a->apply[0], NULL);
    int code = EXIT_FAILED;
    void *out = opened ? malloc((size_t)x.rows * (size_t)fit->to * ole_dtype_size(x.dtype)) : NULL;
    if (out) {
        const ole_matrix from = view(&x), to = {out, x.rows, fit->to, 0, x.dtype};
        const int64_t shape[] = {x.rows, fit->to};
        ole_error error;
        ole_status status = ole_align_apply(fit, &from, &to, &error);
        if (status != OLE_OK) {
            fail_command("align", "%s has %" PRId64 " dimensions, %s %" PRId64, a->apply[0], x.dim,
                         a->a, fit->from);
        } else if (ole_npy_write(a->apply[1], x.dtype, 2, shape, out, &error) != OLE_OK) {
            fail_command("align", "%s", error.message);
        } else {
            code = EXIT_DONE;
        }
    } else if (opened) {
        fail_command("align", "out of memory for %" PRId64 " rows", x.rows);
    }
    free(out);
    embedding_close(&x);
    return code;
}

static void print_text(const arguments *a, const ole_alignment *fit, int64_t rows, double before) {
    printf("%-16s %" PRId64 "\n", "items", rows);
    printf("%-16s %" PRId64 " to %" PRId64 "%s\n", "dimensions", fit->from, fit->to,
           a->options.centre ? ", centred" : "");
    printf("%-16s %-12.4f ‖A R - B‖ / ‖B‖\n", "residual", fit->residual);
    printf("%-16s %-12.4f of matching rows, on average", "cosine", fit->cosine);
    if (isfinite(before)) printf("; %.4f before", before);
    printf("\n%-16s %-12.4f minimises the residual; R does not include it\n", "scale", fit->scale);
    if (fit->rank < fit->from)
        printf("%-16s %-12" PRId64 " below the dimensions, so other maps fit equally well\n",
               "rank", fit->rank);
}

static void print_json(const arguments *a, const ole_alignment *fit, int64_t rows, double before) {
    ole_json w = ole_json_begin(stdout, 2, '{');
    ole_json_put(&w, J("n", rows), J("from", fit->from), J("to", fit->to),
                 J("centred", a->options.centre), J("residual", fit->residual),
                 J("cosine", fit->cosine), J("cosine_before", before), J("scale", fit->scale),
                 J("rank", fit->rank));
    ole_json_close(&w);
}

/* The mean cosine of matching rows without a map; NaN for other dimensions. */
static double cosine_before(const ole_matrix *a, const ole_matrix *b) {
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t i = 0; i < a->rows && a->cols == b->cols; i++) {
        double aa = 0.0, bb = 0.0, ab = 0.0;
        for (int64_t k = i * a->cols; k < (i + 1) * a->cols; k++) {
            double x = a->dtype == OLE_F32 ? ((float *)a->data)[k] : ((double *)a->data)[k];
            double y = b->dtype == OLE_F32 ? ((float *)b->data)[k] : ((double *)b->data)[k];
            aa += x * x;
            bb += y * y;
            ab += x * y;
        }
        if (!(aa > 0.0 && bb > 0.0)) continue;
        sum += ab / sqrt(aa) / sqrt(bb);
        count++;
    }
    return count > 0 ? sum / (double)count : NAN;
}

/* "a: row 3" and so on becomes the file's name. */
static int explain(const arguments *args, const embedding *a, const embedding *b,
                   const ole_error *error) {
    if (a->rows != b->rows)
        return fail_command("align",
                            "%s has %" PRId64 " rows, %s %" PRId64
                            ": both must hold the same items in the same order",
                            args->a, a->rows, args->b, b->rows);
    if (a->dim > b->dim)
        return fail_command("align",
                            "%s has %" PRId64 " dimensions, %s only %" PRId64
                            ": a map into fewer keeps no angles; swap the files",
                            args->a, a->dim, args->b, b->dim);
    if (error->status == OLE_ERROR_DATA && strncmp(error->message + 1, ": ", 2) == 0)
        return fail_command("align", "%s: %s", error->message[0] == 'a' ? args->a : args->b,
                            error->message + 3);
    return fail_command("align", "%s", error->message);
}

static int align(const arguments *args, const embedding *a, const embedding *b) {
    const ole_matrix from = view(a), to = view(b);
    ole_alignment fit;
    ole_error error;
    progress line = progress_start();
    progress_wait(&line, "map");
    ole_status status = ole_align(&fit, &from, &to, &args->options, &error);
    progress_clear(&line);
    if (status != OLE_OK) return explain(args, a, b, &error);
    int code = EXIT_DONE;
    const int64_t shape[] = {fit.from + args->options.centre, fit.to};
    if (args->map && ole_npy_write(args->map, OLE_F64, 2, shape, fit.map, &error) != OLE_OK)
        code = fail_command("align", "%s", error.message);
    if (args->apply[0] && apply(args, &fit) != EXIT_DONE) code = EXIT_FAILED;
    if (code == EXIT_DONE)
        (args->json ? print_json : print_text)(args, &fit, a->rows, cosine_before(&from, &to));
    ole_alignment_free(&fit);
    return code;
}

int run_align(int argc, char **argv) {
    arguments a;
    int code;
    if (!parse(&a, argc, argv, &code)) return code;
    const char *const inputs[] = {a.a, a.b, a.apply[0]};
    const char *const outputs[] = {a.map, a.apply[1]};
    if (!spares_inputs("align", outputs, 2, inputs, 3)) return EXIT_USAGE;
    if (!outputs_ready("align", outputs, 2, NULL)) return EXIT_FAILED;
    const embedding_reader reader = {.command = "align"};
    embedding from = {0}, to = {0};
    code = EXIT_FAILED;
    if (embedding_open(&from, &reader, a.a, NULL) && embedding_open(&to, &reader, a.b, NULL))
        code = align(&a, &from, &to);
    embedding_close(&from);
    embedding_close(&to);
    return code;
}
