/*
 * tests/support/run_files.c - reading run folders.
 */
#include "run_files.h"

#include "formats/safetensors.h"
#include "test.h"

#include <jansson.h>

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 700 };

static ole_safetensors *open_file(const char *path) {
    ole_safetensors *file;
    ole_error error;
    assert_ok(ole_safetensors_open(&file, path, &error), &error);
    return file;
}

static void join(char path[PATH], const char *out, const char *name) {
    assert_true(snprintf(path, PATH, "%s/%s", out, name) < PATH);
}

/* Line after line of metrics.jsonl as JSON. */
static json_t *read_lines(const char *out) {
    char path[PATH], line[4096];
    join(path, out, "metrics.jsonl");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    json_t *lines = json_array();
    while (fgets(line, sizeof line, file)) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_array_append_new(lines, object);
    }
    fclose(file);
    return lines;
}

ole_train_options small_run(const char *net, const char *device) {
    ole_train_options o;
    ole_train_options_init(&o);
    o.data = "digits";
    o.net = net;
    o.device = device;
    o.samples_per_class = 20;
    o.batch_size = 32;
    o.epochs = 3;
    o.lr = 0.02;
    o.augment = "crop:1,flip";
    o.threads = 1;
    o.workers = 0;
    return o;
}

char *run_metrics(const char *out) {
    json_t *lines = read_lines(out), *line;
    size_t i;
    json_array_foreach(lines, i, line) {
        json_object_del(line, "seconds");
        json_object_del(line, "date");
        json_object_del(line, "images_per_s");
        json_object_del(line, "ole_share");
        json_object_del(line, "comm_seconds");
    }
    char *text = json_dumps(lines, JSON_INDENT(1));
    json_decref(lines);
    return text;
}

double run_end(const char *out, const char *key) {
    json_t *lines = read_lines(out);
    json_t *last = json_array_get(lines, json_array_size(lines) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "event")), "end");
    json_t *value = json_object_get(last, key);
    assert_non_null(value);
    double number = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(lines);
    return number;
}

void assert_same_tensors(const char *path_a, const char *path_b) {
    ole_safetensors *a = open_file(path_a), *b = open_file(path_b);
    assert_int_equal(ole_safetensors_count(a), ole_safetensors_count(b));
    for (size_t i = 0; i < ole_safetensors_count(a); i++) {
        const ole_tensor *x = ole_safetensors_get(a, i), *y = ole_safetensors_find(b, x->name);
        assert_non_null(y);
        if (strcmp(x->name, "train.sums") == 0) continue;
        size_t size = (size_t)ole_tensor_count(x) * ole_dtype_size(x->dtype);
        if (strcmp(x->name, "train.counters") == 0) {
            int64_t m[8], n[8]; /* the length of metrics.jsonl depends on how times are printed */
            memcpy(m, x->data, sizeof m);
            memcpy(n, y->data, sizeof n);
            m[3] = n[3] = 0;
            assert_memory_equal(m, n, sizeof m);
        } else if (memcmp(x->data, y->data, size) != 0) {
            fail_msg("%s differs in %s and %s", x->name, path_a, path_b);
        }
    }
    ole_safetensors_close(a);
    ole_safetensors_close(b);
}

bool same_tensor(const char *a, const char *b, const char *name) {
    char x[PATH], y[PATH];
    join(x, a, "best.safetensors");
    join(y, b, "best.safetensors");
    ole_safetensors *f = open_file(x), *g = open_file(y);
    const ole_tensor *t = ole_safetensors_find(f, name), *u = ole_safetensors_find(g, name);
    assert_true(t && u && ole_tensor_count(t) == ole_tensor_count(u));
    size_t size = (size_t)ole_tensor_count(t) * ole_dtype_size(t->dtype);
    bool same = memcmp(t->data, u->data, size) == 0;
    ole_safetensors_close(f);
    ole_safetensors_close(g);
    return same;
}

void assert_same_runs(const char *a, const char *b) {
    static const char *const files[] = {"last.safetensors", "best.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        char x[PATH], y[PATH];
        join(x, a, files[i]);
        join(y, b, files[i]);
        assert_same_tensors(x, y);
    }
    char *m = run_metrics(a), *n = run_metrics(b);
    assert_string_equal(m, n);
    free(m);
    free(n);
}

int64_t run_epochs(const char *out) {
    char path[PATH];
    join(path, out, "last.safetensors");
    ole_safetensors *file = open_file(path);
    int64_t counters[8];
    assert_true(ole_tensor_read(ole_safetensors_find(file, "train.counters"), OLE_I64, counters));
    ole_safetensors_close(file);
    return counters[0];
}

void run_remove(const char *out) {
    DIR *dir = opendir(out);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[PATH];
        if (entry->d_name[0] == '.') continue;
        join(path, out, entry->d_name);
        if (unlink(path) != 0) run_remove(path);
    }
    if (dir) closedir(dir);
    rmdir(out);
}
