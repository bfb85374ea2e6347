/*
 * cli/reproduce/row.c - a recipe and the flags become a study in a folder.
 */
#include "reproduce/reproduce.h"

#include "common/common.h"
#include "common/outputs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files -------------------------------------------------------------------------------- */

void join_path(char out[ROW_PATH], const char *folder, const char *name) {
    if (snprintf(out, ROW_PATH, "%s/%s", folder, name) >= ROW_PATH) out[0] = '\0';
}

bool is_there(const char *folder, const char *name) {
    char path[ROW_PATH];
    join_path(path, folder, name);
    return access(path, F_OK) == 0;
}

bool make_folders(const char *path) {
    char part[ROW_PATH];
    snprintf(part, sizeof part, "%s/", path);
    for (char *at = part + 1; *at; at++) {
        if (*at != '/') continue;
        *at = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            fail_command("reproduce", "%s: cannot make the folder: %s", part, strerror(errno));
            return false;
        }
        *at = '/';
    }
    return true;
}

bool put_file(const char *path, const char *text, size_t size) {
    ole_error error;
    if (!own_file_ready(path, false, &error)) {
        fail_command("reproduce", "%s", error.message);
        return false;
    }
    return put_text("reproduce", path, text, size) == EXIT_DONE;
}

/* ---- Options ------------------------------------------------------------------------------ */

static void place(row *r, const char *out) {
    r->runs = r->asked.from ? &r->source : &r->asked;
    join_path(r->folder, out, r->asked.name);
    join_path(r->runs_folder, out, r->runs->name);
    r->train = r->runs->train;
    r->train.out = r->runs_folder;
    r->lambda_count = r->runs->lambda_count;
    r->sample_count = r->runs->sample_count;
    memcpy(r->lambdas, r->runs->lambdas, sizeof r->lambdas);
    memcpy(r->samples, r->runs->samples, sizeof r->samples);
    if (r->lambda_count > 0) return;
    r->lambdas[0] = 0.0;
    r->lambdas[1] = r->train.lambda;
    r->lambda_count = 2;
}

static void make_quick(row *r) {
    int64_t few = r->runs->quick;
    r->train.epochs = r->train.eval_every = QUICK_EPOCHS;
    r->train.seeds = 1;
    if (r->sample_count > 0) {
        r->sample_count = 2;
        r->samples[0] = few / 2 > 1 ? few / 2 : 1;
        r->samples[1] = r->samples[0] + 1 > few ? r->samples[0] + 1 : few;
    } else if (r->train.samples_per_class == 0 || r->train.samples_per_class > few) {
        r->train.samples_per_class = few;
    }
}

/* Runs that are there are not given up for fewer seeds. */
static void keep_seeds(row *r) {
    char path[ROW_PATH];
    ole_train_options made;
    ole_recipe *recipe;
    ole_train_options_init(&made);
    join_path(path, r->runs_folder, "config.yaml");
    if (access(path, F_OK) != 0 || ole_recipe_read(&recipe, path, &made, NULL) != OLE_OK) return;
    if (made.seeds > r->train.seeds) r->train.seeds = made.seeds;
    ole_recipe_free(recipe);
}

/* The recipe of a folder, as it was used; false where there is none. */
static bool open_used(paper *p, const char *name, const char *out) {
    char folder[ROW_PATH], path[ROW_PATH];
    join_path(folder, out, name);
    join_path(path, folder, "recipe.yaml");
    if (access(path, F_OK) != 0) return false;
    if (paper_open_as(p, name, path)) return true;
    paper_close(p);
    return false;
}

/* The options of runs that are there already; false where there are none. */
static bool read_made(row *r) {
    char path[ROW_PATH];
    join_path(path, r->runs_folder, "config.yaml");
    if (access(path, F_OK) != 0 || ole_recipe_read(&r->config, path, &r->train, NULL) != OLE_OK)
        return false;
    r->train.out = r->runs_folder;
    return true;
}

/* The recipe that `from` names has runs of its own, in a folder of its own. */
static bool check_source(const row *r) {
    const char *name = r->asked.name, *from = r->asked.from;
    if (paper_borrows(&r->source))
        fail_command(
            "reproduce",
            "%s: paper: from %.100s: it has no runs of its own, but shows those of %.100s: "
            "name that one",
            name, from, r->source.from);
    else if (strcmp(name, r->source.name) == 0)
        fail_command("reproduce",
                     "%s: paper: from %.100s: both are called %s: give this recipe's file another "
                     "name",
                     name, from, name);
    else
        return true;
    return false;
}

/* A figure of another recipe's runs takes those that are there, as they were made. */
static bool open_source(row *r, const reproduction *asked) {
    char name[PAPER_NAME];
    bool used = paper_row_name(r->asked.from, name) && open_used(&r->source, name, asked->out);
    if (!used && !paper_open(&r->source, r->asked.from)) {
        fail_command("reproduce", "%s: paper: from %.100s: give the name of a recipe",
                     r->asked.name, r->asked.from);
        return false;
    }
    if (!check_source(r)) return false;
    place(r, asked->out);
    r->train.seeds = 1; /* a figure shows one run */
    if (!used || !read_made(r)) return true;
    r->lambda_count = r->sample_count = 0; /* as the study says */
    r->train.data = r->source.train.data;  /* both may have been moved since */
    r->train.init_from = r->source.train.init_from;
    return true;
}

bool row_open(row *r, const char *name, const reproduction *asked) {
    *r = (row){0};
    if (!paper_open(&r->asked, name)) return false;
    if (r->asked.from && !open_source(r, asked)) return false;
    if (!r->asked.from) place(r, asked->out);
    if (asked->quick && !r->config) make_quick(r);
    if (asked->epochs > 0 && !r->config) r->train.epochs = asked->epochs;
    if (asked->eval_every > 0) r->train.eval_every = asked->eval_every;
    if (asked->seeds > 0) r->train.seeds = asked->seeds;
    if (asked->device) r->train.device = asked->device;
    if (asked->precision && !r->config) r->train.precision = asked->precision;
    if (asked->threads > 0) r->train.threads = asked->threads;
    keep_seeds(r);
    return true;
}

bool row_open_made(row *r, const char *name, const char *out) {
    *r = (row){0};
    if (!open_used(&r->asked, name, out)) return false;
    char from[PAPER_NAME];
    if (r->asked.from && (!paper_row_name(r->asked.from, from) ||
                          !open_used(&r->source, from, out) || paper_borrows(&r->source)))
        return false;
    place(r, out);
    r->lambda_count = r->sample_count = 0; /* as the study says */
    return read_made(r);
}

void row_share(row *r, const row *with) {
    r->runs = with->runs;
    r->train = with->train;
    r->lambda_count = with->lambda_count;
    r->sample_count = with->sample_count;
    memcpy(r->lambdas, with->lambdas, sizeof r->lambdas);
    memcpy(r->samples, with->samples, sizeof r->samples);
}

void row_close(row *r) {
    ole_recipe_free(r->config);
    paper_close(&r->asked);
    paper_close(&r->source);
}

const char *side_name(const row *r, int side) {
    if (side == SOFTMAX) return "softmax";
    return r->train.loss == OLE_LOSS_OLE ? "OLÉ" : "softmax + OLÉ";
}

void row_changes(const row *r, const char *part, char out[256]) {
    const ole_train_options *is = &r->train, *was = &r->runs->train;
    size_t used = 0;
    out[0] = '\0';
    if (is->epochs != was->epochs)
        used += (size_t)snprintf(out + used, 256 - used, "%" PRId64 " of %" PRId64 " epochs, ",
                                 is->epochs, was->epochs);
    if (is->samples_per_class != was->samples_per_class)
        used += (size_t)snprintf(out + used, 256 - used, "%" PRId64 " samples a class, ",
                                 is->samples_per_class);
    if (is->precision && (!was->precision || strcmp(is->precision, was->precision) != 0))
        used += (size_t)snprintf(out + used, 256 - used, "%.20s, ", is->precision);
    if (*part) used += (size_t)snprintf(out + used, 256 - used, "%.120s, ", part);
    if (used >= 2) out[used - 2] = '\0';
}

/* ---- The study ---------------------------------------------------------------------------- */

ole_study_kind row_study_kind(const row *r) {
    return r->runs->kind == PAPER_TUNE    ? OLE_STUDY_TUNE
           : r->runs->kind == PAPER_SWEEP ? OLE_STUDY_SWEEP
                                          : OLE_STUDY_COMPARE;
}

row *row_with_runs(row *rows, int count, const row *r) {
    for (int i = 0; i < count; i++)
        if (strcmp(rows[i].runs_folder, r->runs_folder) == 0) return &rows[i];
    return NULL;
}

int64_t row_count_runs(const row *r) {
    int64_t values = r->lambda_count > 0 ? r->lambda_count : 2;
    int64_t points = values * (r->sample_count > 0 ? r->sample_count : 1);
    return (points + (r->runs->kind == PAPER_TUNE ? 2 : 0)) * r->train.seeds;
}

ole_study_options row_study(const row *r) {
    ole_study_options o;
    ole_study_options_init(&o);
    o.train = &r->train;
    o.lambdas = r->lambda_count > 0 ? r->lambdas : NULL;
    o.lambda_count = r->lambda_count;
    o.samples = r->sample_count > 0 ? r->samples : NULL;
    o.sample_count = r->sample_count;
    o.baseline = r->runs->kind == PAPER_TUNE;
    o.recipe = r->runs->text;
    o.data_name = r->runs->train.data;
    return o;
}

ole_status row_conduct(const row *r, const ole_study_options *options, ole_study_result *result,
                       ole_error *error) {
    switch (row_study_kind(r)) {
    case OLE_STUDY_TUNE:
        return ole_tune(options, result, error);
    case OLE_STUDY_SWEEP:
        return ole_sweep(options, result, error);
    default:
        return ole_compare(options, result, error);
    }
}

bool row_look(const row *r, ole_study_result *result, ole_error *error) {
    ole_study_options o = row_study(r);
    o.look = true;
    *result = (ole_study_result){0};
    return row_conduct(r, &o, result, error) == OLE_OK;
}

bool row_is_whole(const row *r) {
    ole_study_result made = {0};
    bool whole = is_there(r->runs_folder, "study.json") && row_look(r, &made, NULL) &&
                 made.ended == made.total;
    ole_study_result_free(&made);
    return whole;
}
