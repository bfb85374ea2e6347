/*
 * fuzz/fuzz.h - what all targets share: a folder for their files, and checks.
 *
 * A target is a file fuzz_NAME.c with a fuzz_one().  run.c calls it, under libFuzzer or on the
 * files of fuzz/corpus/NAME, and limits what an input may cost.
 */
#ifndef OLE_FUZZ_FUZZ_H
#define OLE_FUZZ_FUZZ_H

#include "ole/base.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Feeds one input to the library, and checks what comes out. */
void fuzz_one(const uint8_t *bytes, size_t size);

/* Ends the program unless the condition holds. */
void require(bool condition, const char *what);

/* Writes a file into the target's folder, which is removed in the end. Returns its path, which
 * lasts for four calls. */
const char *put_file(const char *name, const void *bytes, size_t size);

/* The folder, made at the first call; and a path in it. */
const char *fuzz_folder(void);
const char *fuzz_path(const char *name);

/* Removes what is in a folder of the target's folder, and that folder. */
void remove_folder(const char *path);

/* An error must have the status that was returned, and be one plain line. */
void check_error(ole_status status, const ole_error *error);

/* Reads every byte, so that the sanitizer sees each. */
void touch(const void *bytes, size_t size);

#endif
