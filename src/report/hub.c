/*
 * src/report/hub.c - a model as a folder for a model hub: weights, ONNX file, configuration, loader
 * for PyTorch, model card.
 *
 * Nothing in the folder names a path of this machine, and the weights come without the optimiser's
 * state and the recipe that a checkpoint also holds.
 */
#include "ole/train/export.h"

#include "base/error.h"
#include "base/memory_file.h"
#include "base/quote.h"
#include "base/struct_size.h"
#include "model/calibration.h"
#include "model/hub.h"
#include "model/model.h"
#include "model/split_runner.h"
#include "net/write_graph.h"
#include "report/hub_card.h"
#include "report/load_in_torch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const ole_hub_options defaults = {.struct_size = sizeof(ole_hub_options)};

void ole_hub_options_init_sized(ole_hub_options *options, size_t struct_size) {
    ole_struct_fill(options, struct_size, &defaults);
}

static const char *const hub_files[] = {"model.safetensors", "model.onnx", "config.json",
                                        "load_in_torch.py",  "README.md",  NULL};

/* The model to export. */
typedef struct hub {
    const ole_hub_options *options;
    const char *folder;
    char file[OLE_RUN_PATH]; /* the model's */
    char name[128];
    ole_model *model;
    bool has_run;
    ole_run_view run;
    ole_report_options report; /* how the run is opened */
    ole_hub_results results;
    bool stopped;
} hub;

static void tell(const hub *h, const char *what, double share) {
    if (h->options->progress) h->options->progress(h->options->context, what, share);
}

/* An ole_part_callback. */
static bool tell_part(void *context, const char *part, int64_t done, int64_t total) {
    tell(context, part, (double)done / (double)total);
    return false;
}

/* ---- Opening ------------------------------------------------------------------------------ */

/* The model's run folder, or the one that holds its file; "" if there is none. */
static void find_run(const char *model, const char *file, char run[OLE_RUN_PATH]) {
    const char *slash = strrchr(file, '/');
    bool is_folder = strcmp(model, file) != 0 && !ole_is_hub_name(model);
    int length = is_folder ? (int)strlen(model) : slash ? (int)(slash - file) : 0;
    snprintf(run, OLE_RUN_PATH, "%.*s", length, is_folder ? model : file);
    if (length == 0) strcpy(run, slash == file ? "/" : ".");
    if (ole_is_hub_name(model) || !ole_run_has(run, "config.yaml") ||
        !ole_run_has(run, "metrics.jsonl"))
        run[0] = '\0';
}

/* The folder's last part as a name for a hub: runs of other characters become one '-', but for the
 * ends. */
static void name_model(hub *h) {
    const char *text = h->options->name ? h->options->name : h->folder;
    size_t end = strlen(text), used = 0;
    while (end > 1 && text[end - 1] == '/')
        end--;
    size_t at = end;
    while (at > 0 && text[at - 1] != '/')
        at--;
    for (; at < end && used + 1 < sizeof h->name; at++) {
        bool good =
            strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_", text[at]) ||
            (used > 0 && strchr(".-", text[at]));
        if (!good && (used == 0 || h->name[used - 1] == '-')) continue;
        h->name[used++] = good ? text[at] : '-';
    }
    while (used > 0 && h->name[used - 1] == '-')
        used--;
    h->name[used] = '\0';
    if (used == 0) strcpy(h->name, "model");
}

static ole_status open_hub(hub *h, const char *model, ole_error *error) {
    char run[OLE_RUN_PATH];
    ole_status status = ole_model_find(model, h->file, error);
    if (status == OLE_OK) status = ole_model_load(&h->model, h->file, h->options->threads, error);
    if (status != OLE_OK) return status;
    name_model(h);
    find_run(model, h->file, run);
    if (!run[0]) return OLE_OK;
    h->has_run = true;
    return ole_run_view_open(&h->run, run, error);
}

static void close_hub(hub *h) {
    if (h->has_run) ole_run_view_close(&h->run);
    ole_model_free(h->model);
    free(h->results.class_count);
    free(h->results.class_wrong);
}

/* ---- Measuring ---------------------------------------------------------------------------- */

/* Without the data: the results that the run has recorded. */
static void take_history(hub *h) {
    const ole_history *history = &h->run.history;
    h->run.split = h->run.options.skip_test || !isfinite(history->test_error) ? OLE_SPLIT_VALIDATION
                                                                              : OLE_SPLIT_TEST;
    h->results.error =
        h->run.split == OLE_SPLIT_TEST ? history->test_error : history->validation_error;
    if (!h->run.classifier) h->results.error = NAN;
}

static ole_status judge(hub *h, const ole_outputs *o, ole_error *error) {
    const ole_model_info *m = ole_model_get_info(h->model);
    ole_hub_results *r = &h->results;
    r->class_count = calloc((size_t)m->classes, sizeof *r->class_count);
    r->class_wrong = calloc((size_t)m->classes, sizeof *r->class_wrong);
    if (!r->class_count || !r->class_wrong)
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for the errors of classes");
    int64_t wrong = 0, unknown = 0;
    for (int64_t i = 0; i < o->count; i++) {
        ole_prediction p;
        ole_model_judge(h->model, o->features + i * m->features, o->logits + i * m->classes, 1, &p);
        bool missed = p.best != o->labels[i];
        r->class_count[o->labels[i]]++;
        r->class_wrong[o->labels[i]] += missed;
        wrong += missed;
        unknown += p.label < 0;
    }
    r->count = o->count;
    r->error = 100.0 * (double)wrong / (double)o->count;
    if (m->threshold_score != OLE_SCORE_NONE) r->unknown = (double)unknown / (double)o->count;
    const ole_logits logits = {o->count, m->classes, o->logits, o->labels};
    ole_calibration calibration;
    ole_calibration_measure(&calibration, &logits, m->temperature);
    r->ece = calibration.ece;
    return OLE_OK;
}

/* Runs the model on its test samples; data that cannot be opened are no error. */
static ole_status measure(hub *h, char why[512], ole_error *error) {
    h->results = (ole_hub_results){.error = NAN, .knn1_error = NAN, .ece = NAN, .unknown = NAN};
    if (!h->has_run) {
        snprintf(why, 512, "no run folder: its data are not known");
        return OLE_OK;
    }
    ole_report_options_init(&h->report);
    h->report.threads = h->options->threads;
    h->report.model = h->model;
    h->results.knn1_error = h->run.history.knn1_error;
    ole_status status = ole_run_view_load(&h->run, &h->report, error);
    if (status != OLE_OK) return status;
    if (h->run.changed)
        snprintf(h->run.without, sizeof h->run.without,
                 "%s has changed since the run: the model has seen some of its samples",
                 h->run.options.data);
    if (h->run.without[0] || !h->run.classifier) {
        snprintf(why, 512, "%s", h->run.without);
        take_history(h);
        return OLE_OK;
    }
    const ole_part part = {
        ole_split_part(h->run.split), h->run.set, h->run.split, false, tell_part, h};
    ole_outputs outputs;
    bool stopped;
    status = ole_outputs_collect(&outputs, h->model, &part, true, &stopped, error);
    if (status != OLE_OK) return status;
    status = judge(h, &outputs, error);
    ole_outputs_free(&outputs);
    return status;
}

/* ---- Writing ------------------------------------------------------------------------------ */

/* Leaves out the tensors that only resuming needs. */
static bool is_kept(const char *tensor) {
    return strncmp(tensor, "optimizer.", 10) != 0 && strncmp(tensor, "average.", 8) != 0 &&
           strncmp(tensor, "train.", 6) != 0;
}

static ole_status write_weights(const char *from, const char *path, ole_error *error) {
    ole_safetensors *file;
    ole_status status = ole_safetensors_open(&file, from, error);
    if (status != OLE_OK) return status;
    size_t count = ole_safetensors_count(file), texts = ole_safetensors_texts(file), kept = 0,
           noted = 0;
    ole_tensor *tensors = calloc(count + 1, sizeof *tensors);
    ole_metadata *metadata = calloc(texts + 1, sizeof *metadata);
    if (!tensors || !metadata)
        status = ole_fail(error, OLE_ERROR_MEMORY, "out of memory for a model");
    for (size_t i = 0; i < count && status == OLE_OK; i++)
        if (is_kept(ole_safetensors_get(file, i)->name))
            tensors[kept++] = *ole_safetensors_get(file, i);
    for (size_t i = 0; i < texts && status == OLE_OK; i++) {
        ole_metadata text = ole_safetensors_text(file, i);
        if (strcmp(text.key, "config") != 0 && strcmp(text.key, "checksum") != 0)
            metadata[noted++] = text;
    }
    if (status == OLE_OK)
        status = ole_safetensors_write(path, tensors, kept, metadata, noted, error);
    free(tensors);
    free(metadata);
    ole_safetensors_close(file);
    return status;
}

static void put_config(ole_json *w, const hub *h, const ole_net *net) {
    const ole_model_info *m = ole_model_get_info(h->model);
    ole_json_open(w, NULL, '{');
    ole_json_put(w, J("model_type", "ole"), J("library_name", "ole"), J("net", m->net));
    ole_json_open(w, "input", '[');
    ole_json_put(w, J(NULL, m->channels), J(NULL, m->height), J(NULL, m->width));
    ole_json_close(w);
    ole_json_put(w, J("num_features", m->features), J("num_labels", m->classes));
    ole_json_open(w, "id2label", '{');
    for (int k = 0; k < m->classes; k++)
        ole_json_string(w, ole_printed("%d", k).text, m->class_names[k]);
    ole_json_close(w);
    ole_json_put(w, J("classifier", m->classifier), J("temperature", m->temperature));
    if (m->threshold_score != OLE_SCORE_NONE)
        ole_json_put(w, J("threshold", m->threshold),
                     J("threshold_score", ole_score_name(m->threshold_score)));
    ole_net_write_graph(net, w, "graph");
    ole_json_close(w);
}

static ole_status write_config(const hub *h, ole_error *error) {
    const ole_model_info *m = ole_model_get_info(h->model);
    ole_net *net;
    ole_status status =
        ole_net_create(&net, m->net, m->channels, m->height, m->width, m->classes, error);
    if (status != OLE_OK) return status;
    ole_memory_file memory;
    ole_json w;
    if (!ole_memory_file_open(&memory)) {
        ole_net_destroy(net);
        return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for config.json");
    }
    ole_json_init(&w, memory.file, 2);
    put_config(&w, h, net);
    ole_net_destroy(net);
    return ole_run_put_memory(h->folder, "config.json", &memory, error);
}

static ole_status write_card(const hub *h, ole_error *error) {
    const ole_hub_card card = {.name = h->name,
                               .model = ole_model_get_info(h->model),
                               .run = h->has_run ? &h->run : NULL,
                               .results = h->results};
    char *text = ole_hub_card_text(&card);
    ole_status status = ole_run_put(h->folder, "README.md", text, error);
    free(text);
    return status;
}

/* A card may have been edited: nothing is replaced. */
static ole_status refuse_files(const char *folder, ole_error *error) {
    for (int i = 0; hub_files[i]; i++) {
        char path[OLE_RUN_PATH];
        struct stat about;
        ole_status status = ole_run_output(path, folder, hub_files[i], error);
        if (status != OLE_OK) return status;
        if (lstat(path, &about) == 0)
            return ole_fail(error, OLE_ERROR_ARGUMENT,
                            "%s: already exists; remove it, or choose another folder",
                            ole_quote_string(path).text);
    }
    return OLE_OK;
}

static ole_status write_files(hub *h, ole_hub_summary *summary, ole_error *error) {
    char path[OLE_RUN_PATH];
    tell(h, "writing", 0.0);
    ole_status status = ole_run_output(path, h->folder, hub_files[0], error);
    if (status == OLE_OK) status = write_weights(h->file, path, error);
    if (status == OLE_OK) status = ole_run_output(path, h->folder, hub_files[1], error);
    if (status == OLE_OK) status = ole_export_onnx(h->file, path, NULL, &summary->onnx, error);
    if (status == OLE_OK) status = write_config(h, error);
    if (status == OLE_OK) status = ole_run_put(h->folder, hub_files[3], load_in_torch, error);
    return status == OLE_OK ? write_card(h, error) : status;
}

/* All files, or none: half a folder would be taken for a whole one. */
static ole_status write_folder(hub *h, ole_hub_summary *summary, ole_error *error) {
    size_t made;
    ole_status status = ole_run_make_folder(h->folder, &made, error);
    if (status != OLE_OK) return status;
    status = write_files(h, summary, error);
    if (status == OLE_OK) return OLE_OK;
    for (int i = 0; hub_files[i]; i++) {
        char path[OLE_RUN_PATH];
        if (ole_run_path(path, h->folder, hub_files[i], NULL) == OLE_OK) unlink(path);
    }
    ole_run_remove_folder(h->folder, made);
    return status;
}

ole_status ole_export_hub(const char *model, const char *folder, const ole_hub_options *options,
                          ole_hub_summary *summary, ole_error *error) {
    if (!model || !folder || !*folder)
        return ole_fail(error, OLE_ERROR_ARGUMENT,
                        "ole_export_hub: model or folder is NULL or empty");
    ole_hub_options o = defaults;
    ole_status status = ole_struct_read(&o, options, OLE_SIZE_UP_TO(ole_hub_options, context),
                                        "ole_hub_options_init", error);
    if (status == OLE_OK) status = refuse_files(folder, error);
    if (status != OLE_OK) return status;
    hub *h = calloc(1, sizeof *h); /* a run view is large */
    if (!h) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory for an export");
    ole_hub_summary s = {0};
    h->options = &o;
    h->folder = folder;
    status = open_hub(h, model, error);
    if (status == OLE_OK) status = measure(h, s.without, error);
    if (status == OLE_OK) status = write_folder(h, &s, error);
    s.samples = h->results.count;
    s.error = h->results.error;
    snprintf(s.name, sizeof s.name, "%s", h->name);
    close_hub(h);
    free(h);
    if (status == OLE_OK && summary) *summary = s;
    return status;
}
