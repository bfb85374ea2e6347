/* cli/common/alignment.c - finding the landmarks of an image file. */
#include "common/alignment.h"

#include "common/common.h"

#include "base/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Opening ------------------------------------------------------------------------------ */

static void set_folder_of(char folder[PATH_MAX], const char *path) {
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) + (slash == path) : 1;
    snprintf(folder, PATH_MAX, "%.*s", length, slash ? path : ".");
}

int alignment_open(alignment *a, const char *command, trained_data *run, const char *model,
                   const char *align) {
    *a = (alignment){.command = command, .of_run = !align};
    if (align && strcmp(align, "none") == 0) return EXIT_DONE;
    trained_data_read_run(run, command, model);
    const char *data = run->recipe ? run->options.data : NULL;
    if (!data || strncmp(data, "folder:", 7) != 0 ||
        ole_dataset_locate(data, a->data, sizeof a->data, NULL) != OLE_OK)
        *a->data = '\0';
    const char *path = align ? align : run->recipe ? run->options.align : "";
    if (!*path) return EXIT_DONE;
    ole_error error;
    if (ole_aligner_open(&a->aligner, align ? NULL : a->data, path, &error) == OLE_OK) {
        set_folder_of(a->beside, ole_aligner_path(a->aligner));
        return EXIT_DONE;
    }
    if (align) return fail_with(command, &error);
    tell_command(command,
                 "warning: the run's images were aligned by landmarks that cannot be read, so "
                 "images are used unaligned: %s; name their own with --align, or --align none",
                 error.message);
    return EXIT_DONE;
}

void alignment_close(alignment *a) {
    ole_aligner_close(a->aligner);
    a->aligner = NULL;
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* What follows a folder's name in a path; NULL: the path does not begin with it. */
static const char *rest_of(const char *path, const char *folder) {
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    if (length == 0 || strncmp(path, folder, length) != 0) return NULL;
    if (folder[length - 1] != '/' && path[length] != '/') return NULL;
    const char *rest = path + length;
    return rest + strspn(rest, "/");
}

/* The row of a path in a folder, by the names as they are, or else by the real folders; NULL: none.
 * A link to an image keeps its own name. */
static const char *find_in(const alignment *a, const char *path, const char *folder,
                           char real[PATH_MAX]) {
    char parent[PATH_MAX], whole[PATH_MAX], real_folder[PATH_MAX];
    const char *rest = rest_of(path, folder);
    if (rest && ole_aligner_has(a->aligner, rest)) return rest;
    set_folder_of(parent, path);
    const char *slash = strrchr(path, '/');
    if (!*folder || !realpath(folder, real_folder) || !realpath(parent, whole)) return NULL;
    if (snprintf(real, PATH_MAX, "%s/%s", strcmp(whole, "/") == 0 ? "" : whole,
                 slash ? slash + 1 : path) >= PATH_MAX)
        return NULL;
    rest = rest_of(real, real_folder);
    return rest && ole_aligner_has(a->aligner, rest) ? rest : NULL;
}

/* The row of an image; NULL: it has none. */
static const char *find_row(const alignment *a, const char *path, char real[PATH_MAX]) {
    const char *const folders[] = {a->word ? a->word : "", a->beside, ".", a->data};
    const char *row = NULL;
    for (size_t i = a->of_run ? 3 : 0; i < 4 && !row; i++)
        row = find_in(a, path, folders[i], real);
    return row;
}

ole_status alignment_read(alignment *a, const ole_model *model, const char *path, float *sample,
                          ole_error *error) {
    char real[PATH_MAX];
    const char *row = a->aligner ? find_row(a, path, real) : NULL;
    if (row) return ole_aligner_read(a->aligner, model, path, row, sample, error);
    if (a->aligner && !a->of_run)
        return ole_fail(error, OLE_ERROR_FORMAT,
                        "%s: no row in %s; add its landmarks, or use it as it is with --align none",
                        ole_quote_string(path).text,
                        ole_quote_string(ole_aligner_path(a->aligner)).text);
    if (a->aligner && !a->warned) {
        if (a->line) progress_clear(a->line);
        tell_command(a->command,
                     "warning: %s has no landmarks in %s, which aligned the run's images: it is "
                     "used unaligned, and so are others without; --align FILE.csv names theirs",
                     path, ole_aligner_path(a->aligner));
    }
    a->warned |= a->aligner != NULL;
    return ole_model_read_file(model, path, sample, error);
}
