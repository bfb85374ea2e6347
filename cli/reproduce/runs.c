/*
 * cli/reproduce/runs.c - the runs of a recipe, as figures and numbers are taken from them: which
 * finished and which diverged, where and when they were made, and what the figures were drawn from.
 *
 * A run's mark is a digest of its metrics.jsonl, which has times: each training has another.
 * numbers.csv and drawn.csv hold the marks of the runs they are of; where a run has another by now
 * they are out of date.
 */
#include "reproduce/reproduce.h"

#include "base/memory_file.h"
#include "common/common.h"

#include <ole/train/history.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

const char *const side_words[SIDES] = {"softmax", "ole"};

/* ---- The runs ----------------------------------------------------------------------------- */

/* FNV-1a of a file, in hexadecimal. */
static void take_mark(const char *folder, char mark[MARK_ROOM]) {
    char path[ROW_PATH];
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    join_path(path, folder, "metrics.jsonl");
    FILE *file = open_text(path);
    for (int c; file && (c = getc(file)) != EOF;)
        hash = (hash ^ (uint64_t)c) * UINT64_C(0x100000001b3);
    if (file) fclose(file);
    snprintf(mark, MARK_ROOM, "%016" PRIx64, hash);
}

bool runs_read(made_runs *runs, const row *r) {
    ole_study_result s;
    ole_error error;
    *runs = (made_runs){0};
    if (!row_look(r, &s, &error)) {
        fail_command("reproduce", "%s", error.message);
        return false;
    }
    runs->item = calloc((size_t)s.run_count + 1, sizeof *runs->item);
    for (int64_t i = 0; runs->item && i < s.run_count; i++) {
        made_run *run = &runs->item[runs->count++];
        *run = (made_run){.side = s.points[s.runs[i].point].lambda > 0.0 ? WITH_OLE : SOFTMAX,
                          .seed = s.runs[i].seed,
                          .state = s.runs[i].state,
                          .knn1_error = s.runs[i].knn1_error};
        join_path(run->folder, r->runs_folder, s.runs[i].folder);
        if (run->state == OLE_STUDY_FINISHED) take_mark(run->folder, run->mark);
    }
    ole_study_result_free(&s);
    if (!runs->item) fail_command("reproduce", "out of memory");
    return runs->item != NULL;
}

void runs_free(made_runs *runs) {
    free(runs->item);
    *runs = (made_runs){0};
}

const made_run *runs_first(const made_runs *runs, int side) {
    for (int i = 0; i < runs->count; i++)
        if (runs->item[i].side == side && runs->item[i].state == OLE_STUDY_FINISHED)
            return &runs->item[i];
    return NULL;
}

bool runs_hold(const made_runs *runs, int side, uint64_t seed, const char *mark) {
    for (int i = 0; i < runs->count; i++)
        if (runs->item[i].side == side && runs->item[i].seed == seed && runs->item[i].mark[0] &&
            strcmp(runs->item[i].mark, mark) == 0)
            return true;
    return false;
}

bool runs_have_side(const made_runs *runs, const row *r, int side) {
    int diverged = 0;
    if (runs_first(runs, side)) return true;
    for (int i = 0; i < runs->count; i++)
        diverged += runs->item[i].side == side && runs->item[i].state == OLE_STUDY_DIVERGED;
    tell_command("reproduce", "%s: %s of %s: there is nothing of it to show", r->asked.name,
                 diverged > 0 ? "all runs diverged" : "no run is finished", side_name(r, side));
    return false;
}

/* ---- What figures were drawn from --------------------------------------------------------- */

static const char drawn_name[] = "drawn.csv";

/* What drawn.csv says of figures of these runs; free() it. */
static char *drawn_text(const row *r, const made_run *const *shown, int count) {
    ole_memory_file memory;
    if (!ole_memory_file_open(&memory)) return NULL;
    FILE *out = memory.file;
    fprintf(out, "side,seed,run\n");
    for (int i = 0; i < count; i++)
        if (shown[i])
            fprintf(out, "%s,%" PRIu64 ",%s\n", side_words[shown[i]->side], shown[i]->seed,
                    shown[i]->mark);
    fprintf(out, "draw,,%s\n", r->asked.draw ? r->asked.draw : "");
    return ole_memory_file_close(&memory);
}

bool figures_show(const row *r, const made_run *const *shown, int count) {
    char path[ROW_PATH], *text = drawn_text(r, shown, count);
    join_path(path, r->folder, drawn_name);
    FILE *file = text && is_there(r->folder, "figures.html") ? open_text(path) : NULL;
    bool same = file != NULL;
    for (const char *at = text; same; at++) {
        int c = getc(file);
        same = c == (*at ? (unsigned char)*at : EOF);
        if (c == EOF) break;
    }
    if (file) fclose(file);
    free(text);
    return same;
}

bool figures_note(const row *r, const made_run *const *shown, int count) {
    char path[ROW_PATH], *text = drawn_text(r, shown, count);
    join_path(path, r->folder, drawn_name);
    bool good = text && put_file(path, text, strlen(text));
    free(text);
    return good;
}

figures_state figures_look(const row *r) {
    char path[ROW_PATH], line[256], side[16], mark[MARK_ROOM];
    uint64_t seed;
    made_runs runs;
    if (!is_there(r->folder, "figures.html")) return FIGURES_NONE;
    join_path(path, r->folder, drawn_name);
    FILE *file = open_text(path);
    bool current = file && runs_read(&runs, r);
    if (current) {
        while (fgets(line, sizeof line, file))
            if (sscanf(line, "%15[^,],%" SCNu64 ",%19s", side, &seed, mark) == 3)
                current &= runs_hold(&runs, strcmp(side, side_words[WITH_OLE]) == 0, seed, mark);
        runs_free(&runs);
    }
    if (file) fclose(file);
    return current ? FIGURES_CURRENT : FIGURES_OLD;
}

/* ---- Where and when ----------------------------------------------------------------------- */

/* Of a run that does not note it: what it was asked for, and when its last line was written. */
static void fill_in(const char *folder, ole_history *h) {
    char path[ROW_PATH];
    ole_train_options o;
    ole_recipe *recipe;
    struct stat about;
    struct tm parts;
    ole_train_options_init(&o);
    join_path(path, folder, "config.yaml");
    if (!h->device[0] && ole_recipe_read(&recipe, path, &o, NULL) == OLE_OK) {
        bool known = o.device && strcmp(o.device, "auto") != 0;
        snprintf(h->device, sizeof h->device, "%.*s", known ? (int)strcspn(o.device, ":") : 9,
                 known ? o.device : "not noted");
        ole_recipe_free(recipe);
    }
    join_path(path, folder, "metrics.jsonl");
    if (!h->date[0] && stat(path, &about) == 0)
        strftime(h->date, sizeof h->date, "%Y-%m-%dT%H:%M:%SZ",
                 gmtime_r(&about.st_mtim.tv_sec, &parts));
}

static void add_device(char devices[DEVICES_ROOM], const char *device) {
    size_t used = strlen(devices);
    if (!device[0] || strstr(devices, device)) return;
    snprintf(devices + used, DEVICES_ROOM - used, "%s%s", used ? " and " : "", device);
}

void runs_place(const row *r, const ole_study_result *s, char devices[DEVICES_ROOM],
                char date[DATE_ROOM]) {
    devices[0] = date[0] = '\0';
    for (int64_t i = 0; i < s->run_count; i++) {
        char folder[ROW_PATH];
        ole_history h;
        join_path(folder, r->runs_folder, s->runs[i].folder);
        if (s->runs[i].state != OLE_STUDY_FINISHED || ole_history_read(&h, folder, NULL) != OLE_OK)
            continue;
        fill_in(folder, &h);
        add_device(devices, h.device);
        if (strcmp(h.date, date) > 0) snprintf(date, DATE_ROOM, "%s", h.date);
        ole_history_free(&h);
    }
}
