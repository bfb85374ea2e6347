/*
 * src/base/struct_size.h - options structs that may grow without breaking old programs.
 *
 * Every public options struct starts with `size_t struct_size`, the size that the calling program
 * was compiled with.  Later versions append fields; an older program's struct is then shorter than
 * ours, and we must neither write nor read behind it.  So X_init_sized() fills what fits, and each
 * function that takes options copies them over this version's defaults before it reads a field:
 *
 *     static const ole_x_options defaults = {.struct_size = sizeof(ole_x_options), .k = 5};
 *
 *     void ole_x_options_init_sized(ole_x_options *options, size_t struct_size) {
 *         ole_struct_fill(options, struct_size, &defaults);
 *     }
 *     ...
 *     ole_x_options o = defaults;
 *     status = ole_struct_read(&o, given, OLE_SIZE_UP_TO(ole_x_options, k), "ole_x_options_init",
 *                              error);
 *
 * A struct must not end in padding: a field appended there would not change its size.
 */
#ifndef OLE_SRC_BASE_STRUCT_SIZE_H
#define OLE_SRC_BASE_STRUCT_SIZE_H

#include "base/export.h"

/* The size of a struct whose last field is `field`; of options, the last field that 0.2 had. */
#define OLE_SIZE_UP_TO(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))

/* Fills the caller's `size` bytes: defaults as far as they fit, zeros behind them. */
OLE_INTERNAL void ole_struct_fill(void *options, size_t size, const void *defaults);

/*
 * Copies `given` (NULL: nothing) over `options`, which holds this version's defaults.  `first` is
 * the size in version 0.2.  A smaller one is OLE_ERROR_ARGUMENT; so is a larger one than ours with
 * anything but zeros in the fields we do not know.
 */
OLE_INTERNAL ole_status ole_struct_read(void *options, const void *given, size_t first,
                                        const char *init, ole_error *error);

#endif
