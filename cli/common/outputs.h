/* cli/common/outputs.h - files that a command will write: whether it can, and writing texts safely.
 */
#ifndef OLE_CLI_COMMON_OUTPUTS_H
#define OLE_CLI_COMMON_OUTPUTS_H

#include "base/memory_file.h"
#include <ole/npy.h>

#include <stdbool.h>
#include <stdio.h>

/*
 * Whether the files, and the folder of figures, could be written, as far as that can be known
 * before the work; else says why.  NULLs are skipped.
 */
bool outputs_ready(const char *command, const char *const *files, int count, const char *folder);

/*
 * Files whose names are the program's own, not the user's, are not written through links, and do
 * not replace what others wrote.  Whether a file can be written as far as that goes; `page`: what
 * is there must be a page of ours.  Else the reason is in `error`.
 */
bool own_file_ready(const char *path, bool page, ole_error *error);

/*
 * The same for the files of a folder, up to a NULL: where `page`, which is written first, is not in
 * it, none of them may be.  Empty files are nobody's loss.
 */
bool own_files_ready(const char *folder, const char *page, const char *const *files,
                     ole_error *error);

/*
 * A foreign name, such as a class's, as a field of a .csv file: quoted where need be, and with a '
 * before a first character that would make a spreadsheet take it for a formula (=, +, -, @, a tab
 * or the end of a line) or that is a ' itself.  So a reader gets the name by leaving out a first '.
 * Numbers are printed as they are.
 */
void print_csv_name(FILE *out, const char *name);

/* Whether an array may be written to a file of that name: not one of another kind. Reports it
 * otherwise. */
bool takes_array(const char *command, const char *path);

/*
 * Writes an array [rows, columns] of OLE_F32 or OLE_F64: as .npy, or where the name ends in .csv as
 * a table whose columns are NAME1, NAME2, ..., with all digits.
 */
ole_status write_array(const char *path, ole_dtype dtype, int64_t rows, int64_t columns,
                       const void *data, const char *name, ole_error *error);

/* Writes what was printed into a memory file, which it closes.  The exit code, after a message. */
int put_memory(const char *command, const char *path, ole_memory_file *memory);

#endif
