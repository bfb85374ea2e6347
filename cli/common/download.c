/*
 * cli/common/download.c - a line of progress for downloads, and opening models that may need one.
 */
#include "common/download.h"

#include "base/clock.h"
#include "common/common.h"

#include <stdio.h>
#include <string.h>

/* An ole_download_callback. */
static bool show_progress(void *context, const ole_download_progress *p) {
    download_meter *m = context;
    if (strncmp(m->file, p->file, sizeof m->file - 1) != 0) {
        snprintf(m->file, sizeof m->file, "%s", p->file);
        m->began = ole_clock();
        m->began_at = p->done;
    }
    if (!progress_due(&m->line)) return interrupted();
    double elapsed = ole_clock() - m->began;
    double rate = elapsed > 0.5 ? (double)(p->done - m->began_at) / elapsed : 0;
    ole_short_text whole = {" MB"}, speed = {""}, left = {""};
    if (p->total > 0)
        whole = ole_printed(" of %.1f MB, %.0f %%", (double)p->total / 1e6,
                            100.0 * (double)p->done / (double)p->total);
    if (rate > 0) speed = ole_printed(", %.1f MB/s", rate / 1e6);
    if (rate > 0 && p->total > p->done)
        left = ole_printed(", %s left", duration_text((double)(p->total - p->done) / rate).text);
    progress_show(&m->line, "%s  %.1f%s%s%s", m->file, (double)p->done / 1e6, whole.text,
                  speed.text, left.text);
    return interrupted();
}

void download_watch(download_meter *m, ole_download_options *options) {
    *m = (download_meter){.line = progress_start()};
    options->callback = show_progress;
    options->callback_context = m;
    catch_interrupts();
}

bool is_on_hub(const char *name) {
    return strncmp(name, "hf:", 3) == 0;
}

int find_model(const char *command, const char *name, char path[PATH_MAX]) {
    if (!is_on_hub(name)) { /* and leaves Ctrl-C as it is */
        snprintf(path, PATH_MAX, "%s", name);
        return EXIT_DONE;
    }
    ole_download_options options;
    ole_download_options_init(&options);
    download_meter meter;
    download_watch(&meter, &options);
    ole_error error;
    ole_status status = ole_model_fetch(name, &options, path, PATH_MAX, &error);
    progress_clear(&meter.line);
    if (status == OLE_OK) return EXIT_DONE;
    int code = fail_with(command, &error);
    return interrupted() ? EXIT_INTERRUPTED : code;
}

int open_model(const char *command, const char *name, int threads, ole_model **model) {
    char path[PATH_MAX];
    ole_error error;
    int code = find_model(command, name, path);
    if (code != EXIT_DONE) return code;
    if (ole_model_load(model, path, threads, &error) == OLE_OK) return EXIT_DONE;
    return fail_command(command, "%s", error.message);
}
