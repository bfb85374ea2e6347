/*
 * ole/base.h - what every other header of Olé builds on: status, error message, element types.
 *
 * Example: open a file and report why it cannot be opened.
 *
 *     ole_npy *array;
 *     ole_error error;
 *     if (ole_npy_open(&array, "F.npy", &error) != OLE_OK)
 *         return fprintf(stderr, "%s\n", error.message), 1;
 *     ole_npy_close(array);
 *
 * Errors.  A function that can fail returns an ole_status: OLE_OK (zero), or the kind of failure.
 * Its last parameter is an ole_error that the caller owns; on failure it holds one sentence: what
 * is wrong, where, and what to do.  Pass NULL if the status is enough.  On failure a handle is set
 * to NULL and no other output is written, unless a function documents otherwise.
 *
 * Threads.  The library keeps no state of its own: any two calls may run at the same time unless
 * they share a plan, model, loader or other handle.  Plans, models and loaders detect that, and one
 * of the calls fails with OLE_ERROR_ARGUMENT.  The library never prints, exits or aborts, with one
 * exception that a program must opt into: a process that joined a group of ranks (ole/ranks.h) ends
 * when another rank is lost.
 *
 * Versions.  Each header has up to three sections: the simple calls; contexts and options; and what
 * may still change.  A program keeps running with every later library of the same soname.
 *
 * - Options structs start with `struct_size`.  Fill them with their X_init(), which records the
 * size that the program was compiled with.  Later versions append fields; the library gives those
 * that an older program lacks their defaults.  From a language without C headers, call
 * X_init_sized() with the size of your struct.  NULL in place of options means the defaults.
 * - All other structs (batches, results, infos) keep their layout until the soname changes.
 * - The sections marked "May still change" are as stable within one soname, but may be redesigned
 *   when it changes.
 */
#ifndef OLE_BASE_H
#define OLE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OLE_API __attribute__((visibility("default")))
#else
#define OLE_API
#endif

#define OLE_VERSION_MAJOR 0
#define OLE_VERSION_MINOR 2
#define OLE_VERSION_PATCH 0

/* The version of the running library, such as "0.2.0" (the macros are the header's version). */
OLE_API const char *ole_version(void);

/* ---- Status and errors ---------------------------------------------------------------------- */

typedef enum ole_status {
    OLE_OK = 0,
    OLE_ERROR_ARGUMENT = 1,    /* a parameter is wrong; the message names it */
    OLE_ERROR_DATA = 2,        /* the values are unusable (NaN, Inf); the message names the row */
    OLE_ERROR_FORMAT = 3,      /* a file has the wrong format; the message names file and place */
    OLE_ERROR_IO = 4,          /* the system refused to read or write; the message has its reason */
    OLE_ERROR_MEMORY = 5,      /* an allocation failed */
    OLE_ERROR_NUMERIC = 6,     /* an iteration did not converge, or a result overflows */
    OLE_ERROR_UNSUPPORTED = 7, /* correct, but not available in this build or on this device */
} ole_status;

/* A short name for a status, such as "argument" or "io". Never NULL. */
OLE_API const char *ole_status_name(ole_status status);

typedef struct ole_error {
    ole_status status;
    char message[508]; /* one line without a newline, always terminated */
} ole_error;

/* ---- Element types and devices -------------------------------------------------------------- */

/* Each function documents which of these it takes. */
typedef enum ole_dtype {
    OLE_F16 = 1,
    OLE_BF16 = 2,
    OLE_F32 = 3,
    OLE_F64 = 4,
    OLE_I8 = 5,
    OLE_I16 = 6,
    OLE_I32 = 7,
    OLE_I64 = 8,
    OLE_U8 = 9,
    OLE_U16 = 10,
    OLE_U32 = 11,
    OLE_U64 = 12,
} ole_dtype;

/* "float32", "int64", ...; "unknown" for any other value. */
OLE_API const char *ole_dtype_name(ole_dtype dtype);

/* Bytes per element; 0 for any other value. */
OLE_API size_t ole_dtype_size(ole_dtype dtype);

/* Where a computation runs. */
typedef enum ole_device {
    OLE_DEVICE_CPU = 0,
    OLE_DEVICE_CUDA = 1,
} ole_device;

/* ---- Progress ------------------------------------------------------------------------------- */

/*
 * Progress of a long call: `done` of `total` samples of a part such as "test samples".  Called in
 * the calling thread; `part` stays the same pointer for as long as the part lasts.  Return true to
 * stop.
 */
typedef bool ole_part_callback(void *context, const char *part, int64_t done, int64_t total);

/* Progress of a call that cannot be stopped: the current activity, and its share done, 0 to 1. */
typedef void ole_progress(void *context, const char *what, double share);

/* ---- May still change: build and machine ---------------------------------------------------- */

/*
 * One fact about this build or this machine, such as ("cpu kernels", "avx512") or ("OpenBLAS",
 * "0.3.21, serial"): what `ole info` prints and bug reports should contain.
 */
typedef struct ole_info_row {
    const char *name;
    const char *value;
} ole_info_row;

/* Fills up to `capacity` rows and returns the total number of rows. The strings are static. */
OLE_API size_t ole_info(ole_info_row *rows, size_t capacity);

/*
 * The CPU instruction sets in use: by default all that the machine has.  The environment variable
 * OLE_CPU, read when the library is loaded, caps them at "generic", "avx2", "avx512", "avx512_bf16"
 * or "amx" ("generic" or "neon" on 64-bit ARM), so that one machine can reproduce what others
 * compute.  Each level includes those before it.
 *
 * The cap also applies to oneDNN.  OpenBLAS reads a variable of its own when it is loaded, before
 * the library can set it: to cap OpenBLAS, start the program with OPENBLAS_CORETYPE set to
 * `openblas_core`, as the program `ole` does for itself.
 */
typedef struct ole_cpu {
    const char *machine;       /* the level of this machine */
    const char *level;         /* the level in use */
    const char *cap;           /* OLE_CPU; NULL: not set. A cap above the machine has no effect */
    const char *openblas_core; /* for OPENBLAS_CORETYPE; NULL: not capped */
} ole_cpu;

/*
 * Fails if OLE_CPU is none of these names; every function that computes then fails the same way.
 * `cpu` may be NULL.  The strings are static.
 */
OLE_API ole_status ole_cpu_describe(ole_cpu *cpu, ole_error *error);

#ifdef __cplusplus
}
#endif
#endif
