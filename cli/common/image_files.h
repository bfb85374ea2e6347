/*
 * cli/common/image_files.h - the words of a command line that mean files: a file, a folder of them,
 * or "-", stdin: a list with one name per line, or one image or array.
 */
#ifndef OLE_CLI_COMMON_IMAGE_FILES_H
#define OLE_CLI_COMMON_IMAGE_FILES_H

#include <stdbool.h>

/* Called with each file; true: that is enough. */
typedef bool file_function(void *context, const char *path);

/*
 * Calls `use` with each file of a word, folders in the order of their names, with those inside
 * them; of a folder the hidden files are skipped, and those that are not called as an image (with
 * `arrays`: as .npy, .npz or .csv).  A file on stdin is called /dev/stdin.  True when `use` had
 * enough.  What cannot be opened, or a folder without such files, is reported for `command` and
 * sets *failed.
 */
bool each_file(const char *command, const char *word, bool arrays, file_function *use,
               void *context, bool *failed);

#endif
