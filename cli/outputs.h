/* cli/outputs.h - files that a command will write: whether it can, and writing texts safely. */
#ifndef OLE_CLI_OUTPUTS_H
#define OLE_CLI_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether the files, and the folder of figures, could be written, as far as that can be known
 * before the work; else says why.  NULLs are passed over.
 */
bool outputs_ready(const char *command, const char *const *files, int count, const char *folder);

/* Writes the text as by ole_write_file().  The exit code, after a message. */
int put_text(const char *command, const char *path, const char *text, size_t size);

#endif
