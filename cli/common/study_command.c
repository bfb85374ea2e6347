/*
 * cli/common/study_command.c - the flags, the progress and the end of a study.
 */
#include "common/study_command.h"

#include "common/common.h"
#include "common/launch.h"

#include <inttypes.h>
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

/* The values of a flag; NULL pointers where it was not given. */
typedef struct grid {
    double *lambdas;
    int64_t *samples;
    int64_t lambda_count, sample_count;
} grid;

static void free_grid(grid *g) {
    free(g->lambdas);
    free(g->samples);
}

bool study_read_list(const char *option, const char *text, int64_t most, study_take *take, void *to,
                     char word[WORD_ROOM]) {
    int64_t count = 0;
    for (const char *at = text; at; count++) {
        size_t length = strcspn(at, ",");
        bool fits = length < WORD_ROOM;
        snprintf(word, WORD_ROOM, "%.*s", fits ? (int)length : WORD_ROOM - 1, at);
        ole_train_options one;
        ole_train_options_init(&one);
        if (!fits || count == most || ole_train_options_set(&one, option, word, NULL) != OLE_OK)
            return false;
        take(to, &one);
        at = at[length] ? at + length + 1 : NULL;
    }
    return true;
}

/* False after a mistake, which has been explained. */
static bool read_flag(const char *command, const char *flag, const char *option, const char *text,
                      study_take *take, grid *g) {
    char word[WORD_ROOM];
    if (!text || study_read_list(option, text, MOST_VALUES, take, g, word)) return true;
    fail_command(command,
                 "--%s %.100s: '%s' is not expected here; give at most %d numbers with commas "
                 "between",
                 flag, text, word, MOST_VALUES);
    return false;
}

static void take_lambda(void *to, const ole_train_options *one) {
    grid *g = to;
    g->lambdas[g->lambda_count++] = one->lambda;
}

static void take_samples(void *to, const ole_train_options *one) {
    grid *g = to;
    g->samples[g->sample_count++] = one->samples_per_class;
}

static bool read_grid(const study_command *c, const char *lambdas, const char *samples, grid *g) {
    *g = (grid){0};
    if (lambdas) g->lambdas = calloc(MOST_VALUES, sizeof *g->lambdas);
    if (samples) g->samples = calloc(MOST_VALUES, sizeof *g->samples);
    if ((lambdas && !g->lambdas) || (samples && !g->samples)) {
        fail_command(c->name, "out of memory");
        return false;
    }
    return read_flag(c->name, "lambdas", "lambda", lambdas, take_lambda, g) &&
           read_flag(c->name, "samples", "samples-per-class", samples, take_samples, g);
}

/* ---- While it runs ------------------------------------------------------------------------ */

const char *study_error_text(ole_study_error e, char out[ERROR_ROOM]) {
    if (isfinite(e.std))
        snprintf(out, ERROR_ROOM, "%.2f ± %.2f %%", e.mean, e.std);
    else if (isfinite(e.mean))
        snprintf(out, ERROR_ROOM, "%.2f %%", e.mean);
    else
        snprintf(out, ERROR_ROOM, "-");
    return out;
}

/* "test 4.10 %, ", or nothing. */
static const char *part_text(const char *name, double percent, char out[ERROR_ROOM]) {
    out[0] = '\0';
    if (isfinite(percent)) snprintf(out, ERROR_ROOM, "%s %.2f %%, ", name, percent);
    return out;
}

static void print_run(study_view *v, const ole_study_progress *p) {
    const ole_study_result *r = p->result;
    const ole_study_run *run = &r->runs[p->run];
    char validation[ERROR_ROOM], test[ERROR_ROOM], time[32], left[32];
    progress_clear(&v->line);
    if (run->state == OLE_STUDY_DIVERGED)
        fprintf(stderr, "run %" PRId64 "/%" PRId64 "  %s  diverged\n", r->ended, r->total,
                run->folder);
    else
        fprintf(stderr, "run %" PRId64 "/%" PRId64 "  %s  %s%s%s, %s left\n", r->ended, r->total,
                run->folder, part_text("validation", run->validation_error, validation),
                part_text("test", run->test_error, test), duration_text(run->seconds, time),
                duration_text(r->ended == r->total ? 0.0 : p->seconds_left, left));
}

bool study_show(void *context, const ole_study_progress *p) {
    study_view *v = context;
    const ole_study_result *r = p->result;
    if (v->quiet) return interrupted();
    if (!p->train) {
        print_run(v, p);
    } else if (progress_due(&v->line)) {
        const ole_train_progress *t = p->train;
        char bar[BAR_ROOM], left[32];
        double share =
            ((double)(t->epoch - 1) + (double)t->step / (double)t->steps) / (double)t->epochs;
        progress_show(&v->line,
                      "run %" PRId64 "/%" PRId64 "  %s  epoch %" PRId64 "/%" PRId64
                      " %s  %.0f images/s, %s left",
                      r->ended + 1, r->total, r->runs[p->run].folder, t->epoch, t->epochs,
                      bar_text(share, bar), t->images_per_second,
                      duration_text(p->seconds_left, left));
    }
    return interrupted();
}

void study_say(void *context, const char *text) {
    study_view *v = context;
    if (!v->quiet) progress_say(&v->line, v->name, text);
}

/* ---- The end ------------------------------------------------------------------------------ */

int study_print_json(const char *command, const char *out) {
    char path[4096], bytes[4096];
    snprintf(path, sizeof path, "%s/results.json", out);
    FILE *file = open_text(path);
    if (!file) return fail_command(command, "%s: cannot read", path);
    for (size_t size; (size = fread(bytes, 1, sizeof bytes, file)) > 0;)
        fwrite(bytes, 1, size, stdout);
    fclose(file);
    return EXIT_DONE;
}

static int conclude(const study_command *c, const ole_study_result *r, const char *out, bool json) {
    int code = EXIT_DONE;
    if (r->interrupted)
        tell_command(c->name,
                     "stopped with %" PRId64 " of %" PRId64
                     " runs finished, and saved; 'ole %s --resume --out %s' goes on",
                     r->ended, r->total, c->name, out);
    if (json)
        code = study_print_json(c->name, out);
    else if (!r->interrupted)
        c->print(r);
    if (!json && !r->interrupted) print_lines("%-18s %s/report.html\n", "report", out);
    return r->interrupted ? EXIT_INTERRUPTED : code;
}

static int conduct(const study_command *c, const ole_study_options *options, bool json) {
    ole_study_result result = {0};
    ole_error error;
    study_view *v = options->callback_context;
    if (!v->quiet) progress_wait(&v->line, "preparing");
    ole_status status = c->conduct(options, &result, &error);
    progress_clear(&v->line);
    if (status != OLE_OK) {
        if (!v->quiet) fail_command(c->name, "%s", error.message);
        return exit_code(status);
    }
    int code = result.interrupted ? EXIT_INTERRUPTED : EXIT_DONE;
    if (!v->quiet) code = conclude(c, &result, options->train->out, json);
    ole_study_result_free(&result);
    return code;
}

static int join_and_conduct(const study_command *c, ole_study_options *options, bool json) {
    study_view *v = options->callback_context;
    if (!launch_join(c->name, options->train->out, &options->ranks)) return EXIT_FAILED;
    v->quiet = !launch_prints(options->ranks);
    return launch_leave(options->ranks, conduct(c, options, json));
}

int study_run(const study_command *c, const study_flags *flags, int argc, char **argv) {
    arguments a = {.train = {.command = c->name, .study = true, .holds_out = c->holds_out}};
    train_setup setup;
    grid g;
    study_view v = {.name = c->name, .line = progress_start()};
    int code;
    if (!parse(c, &a, argc, argv, &code)) return code;
    bool good = train_flags_read(&a.train, &setup);
    good = read_grid(c, a.lambdas, flags->samples, &g) && good;
    ole_study_options options;
    ole_study_options_init(&options);
    options.train = &setup.options;
    options.lambdas = g.lambdas;
    options.lambda_count = g.lambda_count;
    options.samples = g.samples;
    options.sample_count = g.sample_count;
    options.baseline = flags->baseline;
    options.jobs = a.jobs;
    options.callback = study_show;
    options.message = study_say;
    options.callback_context = &v;
    catch_interrupts();
    code = good ? join_and_conduct(c, &options, a.json) : EXIT_USAGE;
    free_grid(&g);
    train_setup_free(&setup);
    return code;
}
