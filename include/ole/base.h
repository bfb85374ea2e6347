/*
 * ole/base.h - what every other header of Olé stands on: status, error message, element types.
 *
 * How errors work.  A function that can fail returns an ole_status: OLE_OK (zero) or what kind of
 * thing went wrong.  Its last parameter is an ole_error that the caller owns; on failure it holds
 * a sentence that says what was wrong, where, and what to do.  Pass NULL when the status is enough.
 *
 *     ole_error error;
 *     if (ole_npy_open(&array, "F.npy", &error) != OLE_OK)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * On failure nothing is written to the outputs, but NULL to a handle, unless a function says
 * otherwise.  The library never prints or keeps state of its own: two threads may call anything at
 * the same time as long as they do not pass the same plan, model or other handle; with plans,
 * models and loaders that is noticed, and an OLE_ERROR_ARGUMENT for one of them.  It never exits or
 * aborts, with one exception that a program has to ask for: a process that joined others
 * (ole/ranks.h) is ended when one is lost.
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

/* The version of the library that is running, as "0.2.0" (the macros are those of the header). */
OLE_API const char *ole_version(void);

typedef enum ole_status {
    OLE_OK = 0,
    OLE_ERROR_ARGUMENT = 1, /* a parameter is wrong; the message names it */
    OLE_ERROR_DATA = 2,     /* the values are unusable (NaN, Inf); the message names the row */
    OLE_ERROR_FORMAT = 3,   /* a file is not what it should be; the message names file and spot */
    OLE_ERROR_IO = 4,       /* the system refused to read or write; the message says why */
    OLE_ERROR_MEMORY = 5,   /* an allocation failed */
    OLE_ERROR_NUMERIC = 6,  /* an iteration did not converge, or a result overflows */
    OLE_ERROR_UNSUPPORTED = 7, /* correct, but not available in this build or on this device */
} ole_status;

/* A short name for a status, such as "argument" or "io". Never NULL. */
OLE_API const char *ole_status_name(ole_status status);

typedef struct ole_error {
    ole_status status;
    char message[508]; /* one line, no newline at the end, always terminated */
} ole_error;

/* Element types. Each function says which it takes. */
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

/* "float32", "int64", ...; "unknown" for a value that is no element type. */
OLE_API const char *ole_dtype_name(ole_dtype dtype);

/* Bytes per element; 0 for a value that is no element type. */
OLE_API size_t ole_dtype_size(ole_dtype dtype);

/*
 * How far something long is: `done` of `total` samples of a part such as "test samples".  Called in
 * the calling thread; `part` is the same string for as long as the part lasts.  Return true to
 * stop.
 */
typedef bool ole_part_callback(void *context, const char *part, int64_t done, int64_t total);

/* The same for what cannot be stopped: what it is doing, and the share of that, 0 to 1. */
typedef void ole_progress(void *context, const char *what, double share);

/* Where a computation runs. */
typedef enum ole_device {
    OLE_DEVICE_CPU = 0,
    OLE_DEVICE_CUDA = 1,
} ole_device;

/*
 * Which of the CPU's instruction sets are used.  By default all that the machine has; the
 * environment variable OLE_CPU, read when the library is loaded, allows no more than "generic",
 * "avx2", "avx512", "avx512_bf16" or "amx" ("generic" or "neon" on 64-bit ARM), so that one machine
 * can show what others compute.  Each level includes those before it.
 *
 * oneDNN keeps to the level too.  OpenBLAS reads its own variable when it is loaded, which is too
 * early for the library: a program that wants it capped starts with OPENBLAS_CORETYPE set to
 * `openblas_core`, as the program `ole` does for itself.
 */
typedef struct ole_cpu {
    const char *machine;       /* the level of this machine */
    const char *level;         /* the level in use */
    const char *cap;           /* OLE_CPU; NULL: not set.  One above the machine caps nothing */
    const char *openblas_core; /* for OPENBLAS_CORETYPE; NULL: the machine is not capped */
} ole_cpu;

/*
 * Fails where OLE_CPU is none of these names, as everything that computes does then.  `cpu` may be
 * NULL.  The strings are static.
 */
OLE_API ole_status ole_cpu_describe(ole_cpu *cpu, ole_error *error);

/*
 * What this build and this machine offer, for `ole info` and bug reports.  A row such as
 * ("cpu kernels", "avx512") or ("OpenBLAS", "0.3.21, serial").
 */
typedef struct ole_info_row {
    const char *name;
    const char *value;
} ole_info_row;

/* Fills up to `capacity` rows and returns how many there are in all. The strings are static. */
OLE_API size_t ole_info(ole_info_row *rows, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
