/*
 * cli/common/study_command.c - the flags, the progress and the end of a study.
 */
#include "common/study_command.h"

#include "base/read_file.h"
#include "common/common.h"
#include "common/launch.h"
#include "study/by_kind.h"
#include "train/options/option_table.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 1000, MOST_OWN = 4 };

/* ---- The command line --------------------------------------------------------------------- */

typedef struct arguments {
    train_flags train;
    const char *lambdas;
    int jobs;
    bool json;
} arguments;

static bool parse(const study_command *c, arguments *a, int argc, char **argv, int *code) {
    const arg_positional positionals[] = {
        {"DATA", &a->train.data, "NAME[:PATH]: digits, mnist, cifar10, stl10, folder:photos, ..."},
        {0},
    };
    ole_option options[MOST_OWN + 4 + TRAIN_FLAGS] = {
        {"lambdas", OLE_TEXT, &a->lambdas, "A,B,...", .help = c->lambdas_help},
        {"jobs", OLE_INTEGER, &a->jobs, "J",
         .help = "runs at a time (default: all seeds of a point on a GPU, else 1)", .min = 1,
         .max = 1024},
        {"json", OLE_SWITCH, &a->json, .help = "print results.json"},
    };
    ole_option *row = options + 3;
    for (const ole_option *own = c->own; own->name; own++)
        *row++ = *own;
    train_flags_rows(&a->train, c->without, row);
    const arg_command command = {
        .name = c->name,
        .summary = c->summary,
        .example = c->example,
        .about = c->about,
        .positionals = positionals,
        .none_will_do = true,
        .options = options,
    };
    return args_parse(&command, argc, argv, code);
}

/* ---- Grids -------------------------------------------------------------------------------- */

bool study_read_list(const char *option, const char *text, int64_t most, void *values,
                     int64_t *count, char word[WORD_ROOM]) {
    const ole_option *o = ole_option_find(ole_train_table, option, strlen(option));
    for (const char *at = text; at;) {
        size_t length = strcspn(at, ",");
        char why[OLE_OPTION_WHY];
        ole_train_options one;
        snprintf(word, WORD_ROOM, "%.*s", length < WORD_ROOM ? (int)length : WORD_ROOM - 1, at);
        if (length >= WORD_ROOM || *count == most || !ole_option_set(o, &one, option, word, why))
            return false;
        memcpy((char *)values + 8 * (*count)++, (const char *)&one + o->offset, 8);
        at = at[length] ? at + length + 1 : NULL;
    }
    return true;
}

/* The values of a flag in `values`, which the caller frees; NULL where it was not given.  False
 * after printing a mistake. */
static bool read_flag(const char *command, const char *flag, const char *option, const char *text,
                      void **values, int64_t *count) {
    char word[WORD_ROOM];
    *values = NULL;
    *count = 0;
    if (!text) return true;
    *values = calloc(MOST_VALUES, 8);
    if (!*values)
        fail_command(command, "out of memory");
    else if (study_read_list(option, text, MOST_VALUES, *values, count, word))
        return true;
    else
        fail_command(command, "--%s %.100s: unexpected '%s'; use up to %d comma-separated numbers",
                     flag, text, word, MOST_VALUES);
    return false;
}

/* ---- While it runs ------------------------------------------------------------------------ */

static void print_run(study_view *v, const ole_study_progress *p) {
    const ole_study_result *r = p->result;
    const ole_study_run *run = &r->runs[p->run];
    progress_clear(&v->line);
    fprintf(stderr, "run %" PRId64 "/%" PRId64 "  %s  ", r->ended, r->total, run->folder);
    if (run->state == OLE_STUDY_DIVERGED) {
        fprintf(stderr, "diverged\n");
        return;
    }
    if (isfinite(run->validation_error))
        fprintf(stderr, "validation %.2f %%, ", run->validation_error);
    if (isfinite(run->test_error)) fprintf(stderr, "test %.2f %%, ", run->test_error);
    fprintf(stderr, "%s, %s left\n", duration_text(run->seconds).text,
            duration_text(r->ended == r->total ? 0.0 : p->seconds_left).text);
}

bool study_show(void *context, const ole_study_progress *p) {
    study_view *v = context;
    const ole_study_result *r = p->result;
    if (v->quiet) return interrupted();
    if (!p->train) {
        print_run(v, p);
    } else if (progress_due(&v->line)) {
        const ole_train_progress *t = p->train;
        double share =
            ((double)(t->epoch - 1) + (double)t->step / (double)t->steps) / (double)t->epochs;
        progress_show(&v->line,
                      "run %" PRId64 "/%" PRId64 "  %s left  %s  epoch %" PRId64 "/%" PRId64
                      " %s  %.0f samples/s",
                      r->ended + 1, r->total, duration_text(p->seconds_left).text,
                      r->runs[p->run].folder, t->epoch, t->epochs, bar_text(share).text,
                      t->images_per_second);
    }
    return interrupted();
}

void study_say(void *context, const char *text) {
    study_view *v = context;
    if (!v->quiet) progress_say(&v->line, v->name, text);
}

/* ---- The end ------------------------------------------------------------------------------ */

/* Whether the row that begins at cell i has that one alone. */
static bool is_heading(const ole_text_table *t, int64_t i) {
    int column = 1;
    while (column < t->columns && !*t->cells[i + column])
        column++;
    return t->columns > 1 && column == t->columns;
}

void print_table(ole_text_table *t, const int *widths) {
    int gap = 0; /* to the next cell */
    for (int64_t i = -t->columns; i < t->count; i++) {
        if (i >= 0 && i % t->columns == 0 && is_heading(t, i)) {
            print_cut(stdout, t->cells[i], INT_MAX);
            putchar('\n');
            i += t->columns - 1;
            continue;
        }
        int column = (int)((i + t->columns) % t->columns);
        bool last = column == t->columns - 1;
        const char *cell = i < 0 ? t->names[column] : t->cells[i];
        if (!*cell && !last) cell = "-";
        if (widths[column] > 0 && *cell) {
            printf("%*s", gap, "");
            gap = widths[column] - print_cut(stdout, cell, INT_MAX);
            if (gap < 1) gap = 1;
        }
        if (last) putchar('\n');
        if (last) gap = 0;
    }
    ole_text_table_free(t);
}

int study_print_json(const char *command, const char *out, const char *name) {
    char path[4096], *text;
    size_t size;
    ole_error error;
    snprintf(path, sizeof path, "%s/%s", out, name);
    if (ole_read_file(path, 1 << 30, &text, &size, &error) != OLE_OK)
        return fail_command(command, "%s", error.message);
    fwrite(text, 1, size, stdout);
    free(text);
    return EXIT_DONE;
}

bool study_find_run(const ole_study_result *r, int64_t point, const char *out, char path[4096]) {
    for (const ole_study_run *run = r->runs; run < r->runs + r->run_count; run++)
        if (run->point == point && run->state == OLE_STUDY_FINISHED)
            return snprintf(path, 4096, "%s/%s", out, run->folder) < 4096;
    return false;
}

void next_of_run(const char *run, char *commands[2]) {
    char onnx[4200];
    snprintf(onnx, sizeof onnx, "%s/model.onnx", run);
    commands[0] = next_command("eval", run, "", NULL);
    commands[1] = next_command("export", run, "--onnx ", onnx);
}

static int conclude(const study_command *c, const ole_study_result *r, const char *out, bool json) {
    int code = EXIT_DONE;
    if (r->interrupted)
        tell_resume(
            c->name,
            ole_printed("with %" PRId64 " of %" PRId64 " runs finished", r->ended, r->total).text,
            out);
    if (json)
        code = study_print_json(c->name, out, "results.json");
    else if (!r->interrupted)
        c->print(r);
    if (!json && !r->interrupted) {
        char *next[2] = {NULL, NULL};
        print_lines("%-18s %s/report.html\n", "report", out);
        c->next(r, out, next);
        print_next(next, 2);
    }
    return r->interrupted ? EXIT_INTERRUPTED : code;
}

int study_conduct(ole_study_kind kind, const ole_study_options *options, ole_study_result *result) {
    study_view *v = options->callback_context;
    ole_error error;
    *result = (ole_study_result){0};
    if (!v->quiet) progress_wait(&v->line, "preparing");
    ole_status status = ole_study_conduct(kind, options, result, &error);
    progress_clear(&v->line);
    if (status != OLE_OK && !v->quiet) fail_command(v->name, "%s", error.message);
    return exit_code(status);
}

static int join_and_conduct(const study_command *c, ole_study_options *options, bool json) {
    study_view *v = options->callback_context;
    ole_study_result result;
    if (!launch_join(c->name, options->train->out, &options->ranks)) return EXIT_FAILED;
    v->quiet = !launch_prints(options->ranks);
    int code = study_conduct(c->kind, options, &result);
    if (code == EXIT_DONE) {
        if (result.interrupted) code = EXIT_INTERRUPTED;
        if (!v->quiet) code = conclude(c, &result, options->train->out, json);
        ole_study_result_free(&result);
    }
    return launch_leave(options->ranks, code);
}

int study_run(const study_command *c, const study_flags *flags, int argc, char **argv) {
    arguments a = {.train = {.command = c->name, .study = true, .holds_out = c->holds_out}};
    train_setup setup;
    void *lambdas, *samples;
    study_view v = {.name = c->name, .line = progress_start()};
    int code;
    if (!parse(c, &a, argc, argv, &code)) return code;
    bool good = train_flags_read(&a.train, &setup);
    if (good && ole_ranks_launched_rank() <= 0) train_setup_tell(&setup, c->name);
    ole_study_options options;
    ole_study_options_init(&options);
    good =
        read_flag(c->name, "lambdas", "lambda", a.lambdas, &lambdas, &options.lambda_count) && good;
    good = read_flag(c->name, "samples", "samples_per_class", flags->samples, &samples,
                     &options.sample_count) &&
           good;
    options.train = &setup.options;
    options.lambdas = lambdas;
    options.samples = samples;
    options.baseline = flags->baseline;
    options.jobs = a.jobs;
    options.callback = study_show;
    options.message = study_say;
    options.callback_context = &v;
    catch_interrupts();
    code = good ? join_and_conduct(c, &options, a.json) : EXIT_USAGE;
    free(lambdas);
    free(samples);
    train_setup_free(&setup);
    return code;
}
