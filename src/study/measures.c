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

const char *ole_study_error_text(ole_study_error e, const char *unit, char out[OLE_ERROR_TEXT]) {
    out[0] = '\0';
    if (isfinite(e.std))
        snprintf(out, OLE_ERROR_TEXT, "%.2f ± %.2f%s", e.mean, e.std, unit);
    else if (isfinite(e.mean))
        snprintf(out, OLE_ERROR_TEXT, "%.2f%s", e.mean, unit);
    return out;
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

const ole_measure *ole_measures_find(const ole_measures *m, const ole_run_mark *run,
                                     const char *name) {
    for (int i = 0; i < m->count; i++) {
        const ole_measure *item = &m->items[i];
        bool same = run ? item->run.side == run->side && item->run.seed == run->seed
                        : item->run.side == OLE_SIDE_NONE;
        if (same && !item->stale && strcmp(item->name, name) == 0) return item;
    }
    return NULL;
}

ole_spread ole_measures_spread(const ole_measures *m, int side, const char *name) {
    ole_spread spread = {0};
    for (int i = 0; i < m->count; i++)
        if (m->items[i].run.side == side && !m->items[i].stale &&
            strcmp(m->items[i].name, name) == 0)
            ole_spread_add(&spread, strtod(m->items[i].value, NULL));
    return spread;
}

void ole_measures_free(ole_measures *m) {
    free(m->items);
    *m = (ole_measures){0};
}

/* ---- The files ---------------------------------------------------------------------------- */

/* The next field of a line, without its quotes; NULL: there is none. */
static char *next_field(char **at) {
    char *field = *at;
    if (!field) return NULL;
    bool quoted = *field == '"';
    char *end = field + quoted;
    end += strcspn(end, quoted ? "\"" : ",");
    char *comma = end + strcspn(end, ",");
    *at = *comma ? comma + 1 : NULL;
    *end = '\0';
    return field + quoted;
}

/* Passes each line but the first. */
static ole_status read_lines(ole_measures *m, const char *folder, const char *name,
                             void (*take)(ole_measures *m, char *line), ole_error *error) {
    char path[OLE_RUN_PATH], *bytes;
    size_t size;
    if (!ole_run_has(folder, name)) return OLE_OK;
    ole_status status = ole_run_path(path, folder, name, error);
    if (status == OLE_OK) status = ole_read_file(path, LARGEST, &bytes, &size, error);
    if (status != OLE_OK) return status;
    char *rest, *line = strtok_r(bytes, "\n", &rest);
    while (line && (line = strtok_r(NULL, "\n", &rest)))
        take(m, line);
    free(bytes);
    return OLE_OK;
}

static ole_run_mark read_mark(const char *side, const char *seed, const char *digest) {
    ole_run_mark mark = {.side = *side ? strcmp(side, "ole") == 0 : OLE_SIDE_NONE,
                         .seed = strtoull(seed, NULL, 10)};
    snprintf(mark.digest, sizeof mark.digest, "%s", digest);
    return mark;
}

static void take_measure(ole_measures *m, char *line) {
    const char *fields[5];
    for (int i = 0; i < 5; i++)
        fields[i] = next_field(&line);
    if (!fields[4]) return;
    const ole_run_mark mark = read_mark(fields[0], fields[1], fields[4]);
    ole_measures_add(m, &mark, fields[2], fields[3]);
}

static void take_samples(ole_measures *m, char *line) {
    const char *train = next_field(&line), *test = next_field(&line), *part = next_field(&line);
    if (!test) return;
    ole_measures_add(m, NULL, OLE_MEASURE_TRAINING, train);
    ole_measures_add(m, NULL, OLE_MEASURE_TEST, test);
    if (part) ole_measures_add(m, NULL, OLE_MEASURE_PART, part);
}

static void take_drawn(ole_measures *m, char *line) {
    const char *side = next_field(&line), *seed = next_field(&line);
    if (!line) return;
    const ole_run_mark mark = read_mark(side, seed, line);
    if (strcmp(side, "draw") != 0) {
        ole_measures_add(m, &mark, OLE_MEASURE_FIGURES, "");
        return;
    }
    for (int i = 0; i < m->count; i++) /* the last line: the kinds of all figures */
        if (strcmp(m->items[i].name, OLE_MEASURE_FIGURES) == 0)
            snprintf(m->items[i].value, sizeof m->items[i].value, "%s", line);
}

ole_status ole_measures_read(ole_measures *m, const char *folder, const ole_run_mark *marks,
                             int64_t mark_count, ole_error *error) {
    *m = (ole_measures){0};
    ole_status status = read_lines(m, folder, "numbers.csv", take_measure, error);
    bool figures = false;
    for (int i = 0; i < m->count; i++)
        figures |= strcmp(m->items[i].name, OLE_MEASURE_FIGURES) == 0;
    if (status == OLE_OK && !figures)
        status = read_lines(m, folder, "drawn.csv", take_drawn, error);
    if (status == OLE_OK && !ole_measures_find(m, NULL, OLE_MEASURE_TRAINING))
        status = read_lines(m, folder, "samples.csv", take_samples, error);
    for (int i = 0; i < m->count; i++) {
        ole_measure *item = &m->items[i];
        item->stale = item->run.side != OLE_SIDE_NONE;
        for (int64_t k = 0; k < mark_count && item->stale; k++)
            item->stale = marks[k].side != item->run.side || marks[k].seed != item->run.seed ||
                          !*marks[k].digest || strcmp(marks[k].digest, item->run.digest) != 0;
    }
    if (status == OLE_OK && m->out_of_memory)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for measures");
    if (status != OLE_OK) ole_measures_free(m);
    return status;
}

ole_status ole_measures_write(const ole_measures *m, const char *folder, ole_error *error) {
    ole_memory_file memory;
    if (ole_memory_file_open(&memory)) {
        fprintf(memory.file, "side,seed,measure,value,run\n");
        for (int i = 0; i < m->count; i++) {
            const ole_measure *item = &m->items[i];
            const char *quote = strchr(item->value, ',') ? "\"" : "";
            if (item->stale) continue;
            fprintf(memory.file, "%s,", ole_side_name(item->run.side));
            if (item->run.side != OLE_SIDE_NONE) fprintf(memory.file, "%" PRIu64, item->run.seed);
            fprintf(memory.file, ",\"%s\",%s%s%s,%s\n", item->name, quote, item->value, quote,
                    item->run.digest);
        }
        memory.failed |= m->out_of_memory;
    }
    char *text = ole_memory_file_close(&memory);
    ole_status status = ole_run_put(folder, "numbers.csv", text, memory.size, error);
    free(text);
    return status;
}
