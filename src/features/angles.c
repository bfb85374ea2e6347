/*
 * src/features/angles.c - the angles between features, inside classes and across them.
 *
 * Rows are ordered by class and compared tile by tile; a tile of cosines is turned into counts,
 * sums and cells of the picture and then forgotten.  Counts are integers and sums are kept for each
 * row of a tile and added in order, so nothing depends on the number of threads.
 */
#include "ole/analyze.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "features/classes.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 256,
    FINE = 100, /* bins of a degree, for quantiles */
    FINE_BINS = 180 * FINE,
};

/* What a worker has counted of one kind of pairs. */
typedef struct tally {
    int64_t bins[FINE_BINS];
    double least, most;
} tally;

typedef struct job {
    ole_row_set set;       /* the rows compared, ordered by class */
    const int32_t *number; /* [rows]: the class of each */
    const int32_t *cell;   /* [rows]: row of the picture, rising; NULL: no picture */
    int64_t side;
    tally *tallies;  /* [threads, 2]: within, between */
    double *sums;    /* [BLOCK, 2] of the rows of a tile */
    double *cells;   /* [BLOCK, BLOCK]: sums of a tile's row, for each column of the picture */
    double *cosine;  /* [BLOCK, BLOCK] */
    double *picture; /* [side, side]: sums of angles, upper triangle */
    double total[2]; /* sums of angles: within, between */
    double *rows;    /* [BLOCK, dim] */
    double *left, *right;
    int64_t first_row, first_column, columns; /* of the tile */
} job;

/* ---- A tile ------------------------------------------------------------------------------- */

static void take_row(void *context, int64_t row, int worker) {
    const job *j = context;
    static const double degrees = 57.295779513082323;
    int64_t i = j->first_row + row;
    int64_t begin = i + 1 > j->first_column ? i + 1 - j->first_column : 0;
    double sums[2] = {0.0, 0.0}, *cells = j->cells + row * BLOCK;
    if (j->cell) memset(cells, 0, BLOCK * sizeof *cells);
    for (int64_t c = begin; c < j->columns; c++) {
        int64_t other = j->first_column + c;
        double angle = degrees * acos(fmax(-1.0, fmin(1.0, j->cosine[row * BLOCK + c])));
        int differ = j->number[i] != j->number[other];
        tally *t = &j->tallies[2 * worker + differ];
        int bin = (int)(angle * FINE);
        t->bins[bin < FINE_BINS ? bin : FINE_BINS - 1]++;
        t->least = fmin(t->least, angle);
        t->most = fmax(t->most, angle);
        sums[differ] += angle;
        if (j->cell) cells[j->cell[other] - j->cell[j->first_column]] += angle;
    }
    memcpy(j->sums + 2 * row, sums, sizeof sums);
}

/* Adds what the rows of a tile gave, in their order. */
static void add_tile(job *j, int64_t rows) {
    int64_t last = j->first_column + j->columns - 1;
    for (int64_t r = 0; r < rows; r++) {
        j->total[0] += j->sums[2 * r];
        j->total[1] += j->sums[2 * r + 1];
        if (!j->cell) continue;
        double *to = j->picture + j->cell[j->first_row + r] * j->side + j->cell[j->first_column];
        for (int64_t c = 0; c <= j->cell[last] - j->cell[j->first_column]; c++)
            to[c] += j->cells[r * BLOCK + c];
    }
}

static void compare_all(job *j, ole_pool *pool, const ole_angles_options *o) {
    int64_t rows = j->set.rows;
    for (int64_t a = 0; a < rows; a += BLOCK) {
        int64_t left_rows = rows - a < BLOCK ? rows - a : BLOCK;
        if (o->progress) { /* of the triangle */
            double left = 1.0 - (double)a / (double)rows;
            o->progress(o->context, "angles", 1.0 - left * left);
        }
        ole_panels left = ole_unit_rows_pack(pool, &j->set, a, left_rows, j->rows, j->left);
        for (int64_t b = a; b < rows; b += BLOCK) {
            j->first_row = a;
            j->first_column = b;
            j->columns = rows - b < BLOCK ? rows - b : BLOCK;
            ole_panels right = ole_unit_rows_pack(pool, &j->set, b, j->columns, j->rows, j->right);
            const ole_product product = {.alpha = 1.0, .c = j->cosine, .ldc = BLOCK};
            ole_panels_multiply(pool, &left, &right, &product);
            ole_pool_run(pool, left_rows, take_row, j);
            add_tile(j, left_rows);
        }
    }
}

/* ---- From counts to numbers --------------------------------------------------------------- */

/* The angle under which a share of the pairs lies, straight inside a bin. */
static double quantile(const tally *t, int64_t pairs, double share) {
    double rank = share * (double)pairs, before = 0.0;
    for (int b = 0; b < FINE_BINS; b++) {
        double count = (double)t->bins[b];
        if (count > 0.0 && before + count >= rank) {
            double angle = ((double)b + (rank - before) / count) / FINE;
            return fmax(t->least, fmin(t->most, angle));
        }
        before += count;
    }
    return t->most;
}

static void summarise(const job *j, int threads, int kind, ole_angle_summary *summary,
                      int64_t bins[OLE_ANGLE_BINS]) {
    tally *all = &j->tallies[kind];
    for (int w = 1; w < threads; w++) {
        const tally *t = &j->tallies[2 * w + kind];
        for (int b = 0; b < FINE_BINS; b++)
            all->bins[b] += t->bins[b];
        all->least = fmin(all->least, t->least);
        all->most = fmax(all->most, t->most);
    }
    int64_t pairs = 0;
    for (int b = 0; b < FINE_BINS; b++) {
        bins[b / FINE] += all->bins[b];
        pairs += all->bins[b];
    }
    *summary = (ole_angle_summary){0, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (pairs == 0) return;
    *summary = (ole_angle_summary){
        .pairs = pairs,
        .mean = j->total[kind] / (double)pairs,
        .minimum = all->least,
        .q05 = quantile(all, pairs, 0.05),
        .q25 = quantile(all, pairs, 0.25),
        .median = quantile(all, pairs, 0.5),
        .q75 = quantile(all, pairs, 0.75),
        .q95 = quantile(all, pairs, 0.95),
        .maximum = all->most,
    };
}

/* The first row that falls into a cell of the picture. */
static int64_t cell_begin(const job *j, int64_t cell) {
    return (cell * j->set.rows + j->side - 1) / j->side;
}

/* Sums become means, and the lower triangle the upper one. */
static void finish_picture(const job *j, float *picture) {
    int64_t side = j->side;
    for (int64_t a = 0; a < side; a++) {
        int64_t rows = cell_begin(j, a + 1) - cell_begin(j, a);
        for (int64_t b = a; b < side; b++) {
            int64_t columns = cell_begin(j, b + 1) - cell_begin(j, b);
            int64_t pairs = a == b ? rows * (rows - 1) / 2 : rows * columns;
            double mean = pairs > 0 ? j->picture[a * side + b] / (double)pairs : 0.0;
            picture[a * side + b] = picture[b * side + a] = (float)mean;
        }
    }
}

/* ---- All together ------------------------------------------------------------------------- */

/* The rows to compare: a sample of those that count, without rows of zeros, in class order. */
typedef struct choice {
    int64_t rows;
    int64_t *index;
    int32_t *number, *cell;
} choice;

static bool choose(choice *c, const ole_classes *classes, const ole_embedding *e,
                   const ole_angles_options *o) {
    size_t room = (size_t)ole_sample_size(classes->rows, o->sample) + 1;
    *c = (choice){.index = malloc(room * sizeof *c->index),
                  .number = malloc(room * sizeof *c->number),
                  .cell = malloc(room * sizeof *c->cell)};
    if (!c->index || !c->number || !c->cell) return false;
    ole_sample_draw(classes->rows, o->sample, o->seed, c->index);
    const ole_row_set all = ole_embedding_rows(e, NULL, e->rows);
    int64_t class = 0;
    for (size_t i = 0; i + 1 < room; i++) {
        int64_t position = c->index[i], row = classes->order[position];
        while (position >= classes->begin[class + 1])
            class ++;
        if (ole_row_largest(&all, row) == 0.0) continue;
        c->index[c->rows] = row;
        c->number[c->rows++] = (int32_t) class;
    }
    return true;
}

/* Lays the rows over the picture and notes where classes begin. */
static bool lay_out(choice *c, const ole_classes *classes, int64_t limit, ole_angles *angles) {
    int64_t side = limit < c->rows ? limit : c->rows;
    angles->side = side;
    angles->picture = calloc((size_t)(side * side) + 1, sizeof *angles->picture);
    angles->labels = malloc(((size_t)classes->classes + 1) * sizeof *angles->labels);
    angles->begins = malloc(((size_t)classes->classes + 1) * sizeof *angles->begins);
    if (!angles->picture || !angles->labels || !angles->begins) return false;
    for (int64_t i = 0; i < c->rows; i++) {
        c->cell[i] = (int32_t)(i * side / c->rows);
        if (i > 0 && c->number[i] == c->number[i - 1]) continue;
        angles->labels[angles->classes] = classes->label[c->number[i]];
        angles->begins[angles->classes++] = c->cell[i];
    }
    return true;
}

static void place(job *j, ole_arena *arena, int threads) {
    int64_t dim = j->set.dim;
    j->tallies = ole_arena_take(arena, 2 * (int64_t)threads, sizeof *j->tallies);
    j->sums = ole_arena_take(arena, 2 * BLOCK, sizeof *j->sums);
    j->cells = ole_arena_take(arena, BLOCK * BLOCK, sizeof *j->cells);
    j->cosine = ole_arena_take(arena, BLOCK * BLOCK, sizeof *j->cosine);
    j->picture = ole_arena_take(arena, j->side * j->side, sizeof *j->picture);
    j->rows = ole_arena_take(arena, BLOCK * dim, sizeof *j->rows);
    j->left = ole_arena_take(arena, ole_panels_size(BLOCK, dim), sizeof *j->left);
    j->right = ole_arena_take(arena, ole_panels_size(BLOCK, dim), sizeof *j->right);
}

static ole_status measure(ole_angles *angles, const choice *c, const ole_embedding *e,
                          const ole_angles_options *o, ole_pool *pool, ole_error *error) {
    job j = {.set = ole_embedding_rows(e, c->index, c->rows),
             .number = c->number,
             .cell = angles->side > 0 ? c->cell : NULL,
             .side = angles->side};
    ole_arena arena = {0};
    place(&j, &arena, o->threads);
    void *memory = ole_arena_reserve(&arena);
    if (!memory) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for angles");
    place(&j, &arena, o->threads);
    memset(memory, 0, arena.used);
    for (int t = 0; t < 2 * o->threads; t++)
        j.tallies[t].least = INFINITY;
    compare_all(&j, pool, o);
    angles->rows = c->rows;
    angles->zeros = ole_sample_size(angles->of_rows, o->sample) - c->rows;
    summarise(&j, o->threads, 0, &angles->within, angles->within_bins);
    summarise(&j, o->threads, 1, &angles->between, angles->between_bins);
    if (j.cell) finish_picture(&j, angles->picture);
    free(memory);
    return OLE_OK;
}

static const ole_angles_options defaults = {
    .struct_size = sizeof(ole_angles_options), .sample = 10000, .picture = 500, .threads = 1};

void ole_angles_options_init_sized(ole_angles_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static ole_status check_options(const ole_angles_options *o, ole_error *error) {
    if (o->sample >= 0 && o->picture >= 0 && o->picture <= 10000) return OLE_OK;
    return ole_fail(
        error, OLE_ERROR_ARGUMENT,
        "ole_angles_measure: sample is %lld and picture %lld; must be 0 or more, and at "
        "most 10000 for the picture",
        (long long)o->sample, (long long)o->picture);
}

ole_status ole_angles_measure(ole_angles *angles, const ole_embedding *e,
                              const ole_angles_options *options, ole_error *error) {
    ole_angles_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_angles_options, context),
                                        "ole_angles_options_init", error);
    if (status != OLE_OK) return status;
    if (!angles) return ole_fail(error, OLE_ERROR_ARGUMENT, "ole_angles_measure: angles is NULL");
    status = check_options(&o, error);
    if (status != OLE_OK) return status;
    ole_pool *pool;
    ole_classes classes;
    status = ole_classes_open(&classes, &pool, "ole_angles_measure", e, o.threads, error);
    if (status != OLE_OK) return status;
    choice c = {0};
    ole_angles a = {.of_rows = classes.rows};
    if (choose(&c, &classes, e, &o) && lay_out(&c, &classes, o.picture, &a))
        status = measure(&a, &c, e, &o, pool, error);
    else
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for angles");
    free(c.index);
    free(c.number);
    free(c.cell);
    ole_classes_close(&classes, pool);
    if (status == OLE_OK)
        *angles = a;
    else
        ole_angles_free(&a);
    return status;
}

void ole_angles_free(ole_angles *angles) {
    if (!angles) return;
    free(angles->picture);
    free(angles->labels);
    free(angles->begins);
    *angles = (ole_angles){0};
}

ole_status ole_mean_angles(int64_t rows, int64_t dim, const float *features, const int32_t *labels,
                           double *within, double *between, ole_error *error) {
    if (rows < 0 || dim < 1 || !features || !labels || !within || !between)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_mean_angles: a pointer is NULL, or there are no dimensions");
    if (rows == 0) {
        *within = *between = NAN;
        return OLE_OK;
    }
    int64_t *wide = malloc((size_t)rows * sizeof *wide);
    if (!wide) return ole_fail(error, OLE_ERROR_MEMORY, "ole_mean_angles: out of memory");
    for (int64_t i = 0; i < rows; i++)
        wide[i] = labels[i];
    const ole_embedding e = {rows, dim, OLE_F32, features, wide};
    ole_angles_options options;
    ole_angles_options_init(&options);
    options.sample = options.picture = 0;
    ole_angles angles;
    ole_status status = ole_angles_measure(&angles, &e, &options, error);
    if (status == OLE_OK) {
        *within = angles.within.mean;
        *between = angles.between.mean;
        ole_angles_free(&angles);
    }
    free(wide);
    return status;
}
