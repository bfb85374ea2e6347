/*
 * cli/demo.c - `ole demo`: what the loss does, in a second and without data.
 *
 * Makes an embedding of a few classes that share a direction, scores it, moves it down the gradient
 * of the loss with the length of each row kept, and scores it again.
 */
#include "commands.h"
#include "embedding.h"

#include <ole/json.h>
#include <ole/loss.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char demo_summary[] = "a made embedding before and after orthogonalisation";

enum { CLASSES = 5, PER_CLASS = 20, ROWS = CLASSES * PER_CLASS, DIM = 32, STEPS = 400 };

/*
 * The rate of the descent, of the summed loss, falls from first to last: a step moves each singular
 * value by up to the rate, so an overlap ends as small as the last rate.
 */
static const double first_rate = 1.0, last_rate = 1e-6;

typedef struct demo {
    float before[ROWS * DIM];
    float after[ROWS * DIM];
    float gradient[ROWS * DIM];
    int64_t labels[ROWS];
    ole_loss_plan *plan;
} demo;

/* What the table shows of an embedding. */
typedef struct figures {
    double loss;           /* mean over the rows */
    double within;         /* mean angle of two rows of a class, degrees */
    double between;        /* the same of two rows of different classes */
    int64_t rank;          /* of all rows */
    double effective_rank; /* of all rows */
} figures;

/* ---- The embedding ------------------------------------------------------------------------ */

/* The next number of SplitMix64, in (0, 1). */
static double next_uniform(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 11) + 0.5) * 0x1p-53;
}

/* A normal number by Box and Muller; the second of each pair is not used. */
static double next_normal(uint64_t *state) {
    double radius = sqrt(-2.0 * log(next_uniform(state)));
    return radius * cos(2.0 * acos(-1.0) * next_uniform(state));
}

static void normalise(float *row) {
    double square = 0.0;
    for (int k = 0; k < DIM; k++)
        square += (double)row[k] * row[k];
    for (int k = 0; k < DIM; k++)
        row[k] = (float)(row[k] / sqrt(square));
}

/* Unit rows: a direction all classes share, one of the class, and noise. */
static void make_embedding(demo *d) {
    uint64_t state = 2018;
    double common[DIM], centre[CLASSES][DIM];
    double scale = 1.0 / sqrt(DIM);
    for (int k = 0; k < DIM; k++)
        common[k] = scale * next_normal(&state);
    for (int c = 0; c < CLASSES; c++)
        for (int k = 0; k < DIM; k++)
            centre[c][k] = common[k] + scale * next_normal(&state);
    for (int i = 0; i < ROWS; i++) {
        d->labels[i] = i / PER_CLASS;
        for (int k = 0; k < DIM; k++)
            d->before[i * DIM + k] =
                (float)(centre[d->labels[i]][k] + 0.6 * scale * next_normal(&state));
        normalise(d->before + i * DIM);
    }
}

static ole_status evaluate(demo *d, const float *features, bool with_gradient,
                           ole_loss_result *result, ole_error *error) {
    const ole_loss_batch batch = {
        .rows = ROWS, .features = features, .labels = d->labels, .label_type = OLE_I64};
    const ole_loss_gradient gradient = {.data = d->gradient, .upstream = 1.0};
    return ole_loss_eval(d->plan, &batch, with_gradient ? &gradient : NULL, result, error);
}

/* Gradient descent from `before` to `after`. */
static ole_status orthogonalise(demo *d, ole_error *error) {
    memcpy(d->after, d->before, sizeof d->after);
    for (int step = 0; step < STEPS; step++) {
        ole_loss_result result = {0};
        ole_status status = evaluate(d, d->after, true, &result, error);
        if (status != OLE_OK) return status;
        float rate = (float)(first_rate * pow(last_rate / first_rate, (double)step / STEPS));
        for (int i = 0; i < ROWS * DIM; i++)
            d->after[i] -= rate * d->gradient[i];
        for (int i = 0; i < ROWS; i++)
            normalise(d->after + i * DIM);
    }
    return OLE_OK;
}

/* ---- Measuring ---------------------------------------------------------------------------- */

static void measure_angles(const demo *d, const float *features, figures *f) {
    double sums[2] = {0.0, 0.0};
    int64_t counts[2] = {0, 0};
    for (int i = 0; i < ROWS; i++) {
        for (int j = 0; j < i; j++) {
            double dot = 0.0;
            for (int k = 0; k < DIM; k++)
                dot += (double)features[i * DIM + k] * features[j * DIM + k];
            bool differ = d->labels[i] != d->labels[j];
            sums[differ] += acos(fmax(-1.0, fmin(1.0, dot))) * (180.0 / acos(-1.0));
            counts[differ]++;
        }
    }
    f->within = sums[0] / (double)counts[0];
    f->between = sums[1] / (double)counts[1];
}

static ole_status measure(demo *d, float *features, figures *f, ole_error *error) {
    ole_loss_result result = {0};
    ole_status status = evaluate(d, features, false, &result, error);
    if (status != OLE_OK) return status;
    f->loss = result.value / ROWS;
    f->rank = result.rank;
    measure_angles(d, features, f);
    const ole_matrix view = {.data = features, .rows = ROWS, .cols = DIM, .dtype = OLE_F32};
    return matrix_effective_rank(&view, 1, &f->effective_rank, error);
}

/* Plans, makes, moves and measures. */
static ole_status compute(demo *d, figures *before, figures *after, ole_error *error) {
    ole_loss_options options;
    ole_loss_options_init(&options);
    options.reduction = OLE_REDUCTION_SUM; /* so that the rate does not depend on ROWS */
    ole_status status = ole_loss_plan_create(&d->plan, ROWS, DIM, OLE_F32, &options, error);
    if (status != OLE_OK) return status;
    make_embedding(d);
    status = orthogonalise(d, error);
    if (status == OLE_OK) status = measure(d, d->before, before, error);
    if (status == OLE_OK) status = measure(d, d->after, after, error);
    ole_loss_plan_destroy(d->plan);
    return status;
}

/* ---- Reporting ---------------------------------------------------------------------------- */

static ole_status write_arrays(const demo *d, const char *directory, ole_error *error) {
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        snprintf(error->message, sizeof error->message, "%.200s: cannot make the directory: %s",
                 directory, strerror(errno));
        return OLE_ERROR_IO;
    }
    const struct {
        const char *name;
        ole_dtype dtype;
        int ndim;
        const void *data;
    } files[] = {
        {"F-before.npy", OLE_F32, 2, d->before},
        {"F-after.npy", OLE_F32, 2, d->after},
        {"L.npy", OLE_I64, 1, d->labels},
    };
    const int64_t shape[] = {ROWS, DIM};
    size_t room = strlen(directory) + 32;
    char *path = malloc(room);
    if (!path) {
        snprintf(error->message, sizeof error->message, "out of memory");
        return OLE_ERROR_MEMORY;
    }
    ole_status status = OLE_OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == OLE_OK; i++) {
        snprintf(path, room, "%s/%s", directory, files[i].name);
        status = ole_npy_write(path, files[i].dtype, files[i].ndim, shape, files[i].data, error);
    }
    free(path);
    return status;
}

static void json_figures(ole_json *w, const char *key, const figures *f) {
    ole_json_open(w, key, '{');
    ole_json_number(w, "loss", f->loss);
    ole_json_number(w, "angle_within", f->within);
    ole_json_number(w, "angle_between", f->between);
    ole_json_integer(w, "rank", f->rank);
    ole_json_number(w, "effective_rank", f->effective_rank);
    ole_json_close(w);
}

static void print_json(const figures *before, const figures *after) {
    ole_json w;
    ole_json_init(&w, stdout, 2);
    ole_json_open(&w, NULL, '{');
    ole_json_integer(&w, "n", ROWS);
    ole_json_integer(&w, "d", DIM);
    ole_json_integer(&w, "classes", CLASSES);
    ole_json_integer(&w, "steps", STEPS);
    json_figures(&w, "before", before);
    json_figures(&w, "after", after);
    ole_json_close(&w);
}

static void print_text(const figures *before, const figures *after, const char *directory) {
    printf("%d rows of %d dimensions in %d classes; %d steps down the gradient of the OLE loss\n\n",
           ROWS, DIM, CLASSES, STEPS);
    printf("%-30s %10s %10s\n", "", "before", "after");
    printf("%-30s %10.6f %10.6f\n", "loss", before->loss, after->loss);
    printf("%-30s %10.1f %10.1f\n", "angle within classes, deg", before->within, after->within);
    printf("%-30s %10.1f %10.1f\n", "angle between classes, deg", before->between, after->between);
    printf("%-30s %10.1f %10.1f\n", "effective rank", before->effective_rank,
           after->effective_rank);
    if (directory)
        printf("\nLook closer: ole score %s/F-after.npy %s/L.npy\n", directory, directory);
}

int run_demo(int argc, char **argv) {
    const char *directory = NULL;
    bool json = false;
    const arg_option options[] = {
        {"out", ARG_STRING, &directory, "DIR",
         .help = "write F-before.npy, F-after.npy and L.npy there"},
        {"json", ARG_FLAG, &json, .help = "print JSON"},
        {0},
    };
    const arg_command command = {
        .name = "demo",
        .summary = demo_summary,
        .example = "  $ ole demo --out demo\n",
        .about = "Makes an embedding of a few overlapping classes, moves it down the gradient of "
                 "the OLE\nloss with the length of each row kept, and compares the two.\n",
        .options = options,
    };
    int code;
    if (!args_parse(&command, argc, argv, &code)) return code;

    demo *d = calloc(1, sizeof *d);
    if (!d) return fail_command("demo", "out of memory");
    figures before, after;
    ole_error error;
    ole_status status = compute(d, &before, &after, &error);
    if (status == OLE_OK && directory) status = write_arrays(d, directory, &error);
    free(d);
    if (status != OLE_OK) return fail_command("demo", "%s", error.message);
    if (json)
        print_json(&before, &after);
    else
        print_text(&before, &after, directory);
    return EXIT_DONE;
}
