/*
 * src/study/measures.c - reads and writes numbers.csv.
 *
 * Version 0.1 kept the size of the data in samples.csv ("train,test,part") and the runs that the
 * figures show in drawn.csv ("side,seed,run", and a last line "draw,,KINDS").  They are read where
 * numbers.csv has no such lines.
 */
#include "study/measures.h"

#include "base/error.h"
#include "base/fnv.h"
#include "base/memory_file.h"
#include "base/read_file.h"
#include "model/run_folder.h"
#include "report/text_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 1 << 26 };

const char *ole_side_name(int side) {
    return side == OLE_SIDE_NONE ? "" : side == OLE_SIDE_OLE ? "ole" : "softmax";
}

ole_run_mark ole_run_mark_of(const ole_study_result *study, int64_t number, const char *folder) {
    const ole_study_run *run = &study->runs[number];
    ole_run_mark mark = {.side = study->points[run->point].lambda > 0.0 ? OLE_SIDE_OLE
                                                                        : OLE_SIDE_SOFTMAX,
                         .seed = run->seed};
    char name[OLE_RUN_PATH], path[OLE_RUN_PATH], *bytes = NULL;
    size_t size = 0;
    if (run->state != OLE_STUDY_FINISHED ||
        ole_run_path(name, run->folder, "metrics.jsonl", NULL) != OLE_OK ||
        ole_run_path(path, folder, name, NULL) != OLE_OK ||
        ole_read_file(path, LARGEST, &bytes, &size, NULL) != OLE_OK)
        return mark;
    snprintf(mark.digest, sizeof mark.digest, "%016" PRIx64, ole_fnv64(bytes, size));
    free(bytes);
    return mark;
}

/* ---- In memory ---------------------------------------------------------------------------- */

void ole_measures_add(ole_measures *m, const ole_run_mark *run, const char *name,
                      const char *value) {
    ole_measure *more = realloc(m->items, ((size_t)m->count + 1) * sizeof *more);
    m->out_of_memory |= !more;
    if (!more) return;
    m->items = more;
    ole_measure *item = &more[m->count++];
    *item = (ole_measure){.run = run ? *run : (ole_run_mark){.side = OLE_SIDE_NONE}};
    snprintf(item->name, sizeof item->name, "%s", name);
    snprintf(item->value, sizeof item->value, "%s", value);
}

void ole_measures_add_number(ole_measures *m, const ole_run_mark *run, const char *name,
                             double value) {
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    ole_measures_add(m, run, name, text);
}

void ole_measures_remove(ole_measures *m, const char *name) {
    int kept = 0;
    for (int i = 0; i < m->count; i++)
        if (m->items[i].run.side == OLE_SIDE_NONE || (name && strcmp(m->items[i].name, name) != 0))
            m->items[kept++] = m->items[i];
    m->count = kept;
}

const char *ole_measures_find(const ole_measures *m, const ole_run_mark *run, const char *name) {
    for (int i = 0; i < m->count; i++) {
        const ole_measure *item = &m->items[i];
        bool same = run ? item->run.side == run->side && item->run.seed == run->seed
                        : item->run.side == OLE_SIDE_NONE;
        if (same && strcmp(item->name, name) == 0) return item->value;
    }
    return NULL;
}

ole_spread ole_measures_spread(const ole_measures *m, int side, const char *name) {
    ole_spread spread = {0};
    for (int i = 0; i < m->count; i++)
        if (m->items[i].run.side == side && strcmp(m->items[i].name, name) == 0)
            ole_spread_add(&spread, strtod(m->items[i].value, NULL));
    return spread;
}

void ole_measures_free(ole_measures *m) {
    free(m->items);
    *m = (ole_measures){0};
}

/* ---- Reading ------------------------------------------------------------------------------ */

typedef struct reader {
    ole_measures *to;
    const ole_run_mark *marks; /* of the runs as they are */
    int64_t mark_count;
} reader;

/* The next field of a line, without its quotes; "" at the end. In quotes, "" is a quote. */
static const char *next_field(char **at) {
    bool quoted = **at == '"';
    char *field = *at + quoted, *from = field, *to = field;
    while (*from && (quoted || *from != ',')) {
        if (quoted && *from == '"' && *++from != '"') break;
        *to++ = *from++;
    }
    *at = from + strcspn(from, ",");
    if (**at) ++*at;
    *to = '\0';
    return field;
}

/* Adds a measure of a run, unless it is outdated. */
static void take(const reader *in, const char *side, const char *seed, const char *digest,
                 const char *name, const char *value) {
    for (int64_t k = 0; k < in->mark_count; k++) {
        const ole_run_mark *mark = &in->marks[k];
        if (!*digest || strcmp(mark->digest, digest) != 0 || mark->seed != strtoull(seed, NULL, 10))
            continue;
        if (strcmp(ole_side_name(mark->side), side) == 0) {
            ole_measures_add(in->to, mark, name, value);
            return;
        }
    }
    in->to->old_figures |= strcmp(name, OLE_MEASURE_FIGURES) == 0;
}

static void take_measure(const reader *in, char *line) {
    const char *fields[5];
    for (int i = 0; i < 5; i++)
        fields[i] = next_field(&line);
    if (*fields[0])
        take(in, fields[0], fields[1], fields[4], fields[2], fields[3]);
    else
        ole_measures_add(in->to, NULL, fields[2], fields[3]);
}

static void take_samples(const reader *in, char *line) {
    static const char *const names[] = {OLE_MEASURE_TRAINING, OLE_MEASURE_TEST, OLE_MEASURE_PART};
    for (int i = 0; i < 3 && *line; i++)
        ole_measures_add(in->to, NULL, names[i], next_field(&line));
}

static void take_drawn(const reader *in, char *line) {
    const char *side = next_field(&line), *seed = next_field(&line);
    if (strcmp(side, "draw") != 0) {
        take(in, side, seed, line, OLE_MEASURE_FIGURES, "");
        return;
    }
    for (int i = 0; i < in->to->count; i++) {
        ole_measure *item = &in->to->items[i];
        if (strcmp(item->name, OLE_MEASURE_FIGURES) == 0) /* the kinds of all figures */
            snprintf(item->value, sizeof item->value, "%s", line);
    }
}

/* Passes each line but the first. */
static ole_status read_lines(const reader *in, const char *folder, const char *name,
                             void (*take_line)(const reader *in, char *line), ole_error *error) {
    char path[OLE_RUN_PATH], *bytes, *rest;
    size_t size;
    if (!ole_run_has(folder, name)) return OLE_OK;
    ole_status status = ole_run_path(path, folder, name, error);
    if (status == OLE_OK) status = ole_read_file(path, LARGEST, &bytes, &size, error);
    if (status != OLE_OK) return status;
    char *line = strtok_r(bytes, "\n", &rest);
    while (line && (line = strtok_r(NULL, "\n", &rest)))
        take_line(in, line);
    free(bytes);
    return OLE_OK;
}

ole_status ole_measures_read(ole_measures *m, const char *folder, const ole_run_mark *marks,
                             int64_t mark_count, ole_error *error) {
    const reader in = {m, marks, mark_count};
    *m = (ole_measures){0};
    ole_status status = read_lines(&in, folder, "numbers.csv", take_measure, error);
    bool figures = m->old_figures;
    for (int i = 0; i < m->count; i++)
        figures |= strcmp(m->items[i].name, OLE_MEASURE_FIGURES) == 0;
    if (status == OLE_OK && !figures)
        status = read_lines(&in, folder, "drawn.csv", take_drawn, error);
    if (status == OLE_OK && !ole_measures_find(m, NULL, OLE_MEASURE_TRAINING))
        status = read_lines(&in, folder, "samples.csv", take_samples, error);
    if (status == OLE_OK && m->out_of_memory)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for measures");
    if (status != OLE_OK) ole_measures_free(m);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------ */

ole_status ole_measures_write(const ole_measures *m, const char *folder, ole_error *error) {
    static const char *const names[] = {"side", "seed", "measure", "value", "run"};
    ole_text_table table = {.columns = 5, .names = names, .out_of_memory = m->out_of_memory};
    ole_memory_file memory;
    for (int i = 0; i < m->count; i++) {
        const ole_measure *item = &m->items[i];
        char seed[24] = "";
        if (item->run.side != OLE_SIDE_NONE)
            snprintf(seed, sizeof seed, "%" PRIu64, item->run.seed);
        const char *const cells[] = {ole_side_name(item->run.side), seed, item->name, item->value,
                                     item->run.digest};
        for (int c = 0; c < table.columns; c++) /* read from a file: any characters */
            ole_text_table_add(&table, "%s", cells[c]);
    }
    if (ole_memory_file_open(&memory)) ole_text_table_print_csv(&table, memory.file);
    memory.failed |= table.out_of_memory;
    ole_text_table_free(&table);
    return ole_run_put_memory(folder, "numbers.csv", &memory, error);
}
