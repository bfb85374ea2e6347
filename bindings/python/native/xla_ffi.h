/*
 * bindings/python/native/xla_ffi.h - what a handler of XLA's foreign function interface is called
 * with: the binary layout of its C API, version 0.1 and later, as far as the loss needs it.
 *
 * Declared here so that building needs no JAX and one binary serves every jaxlib: XLA only appends
 * to these structs, and each says its size.  tests/python/xla_layout.c compares them with the
 * header of the jaxlib that is installed.
 */
#ifndef OLE_BINDINGS_XLA_FFI_H
#define OLE_BINDINGS_XLA_FFI_H

#include <stddef.h>
#include <stdint.h>

enum { XLA_MAJOR = 0 };         /* of the interface's version */
enum { XLA_METADATA = 1 };      /* xla_extension.type */
enum { XLA_STAGE_EXECUTE = 3 }; /* xla_call.stage */
enum { XLA_BUFFER = 1 };        /* xla_values.type */
enum { XLA_SCALAR = 3 };        /* xla_attributes.type */
enum { XLA_INVALID_ARGUMENT = 3, XLA_RESOURCE_EXHAUSTED = 8, XLA_INTERNAL = 13 }; /* errors */

/* Element types. */
enum { XLA_S32 = 4, XLA_S64 = 5, XLA_U32 = 8, XLA_U64 = 9, XLA_F32 = 11, XLA_F64 = 12 };

typedef struct xla_extension {
    size_t struct_size;
    int type;
    struct xla_extension *next;
} xla_extension;

typedef struct xla_version {
    size_t struct_size;
    xla_extension *extensions;
    int major, minor;
} xla_version;

/* What XLA asks a handler for when it is registered. */
typedef struct xla_metadata {
    size_t struct_size;
    xla_version version;
    uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
    xla_extension base;
    xla_metadata *metadata;
} xla_metadata_extension;

/* An array, dense and in C order. */
typedef struct xla_buffer {
    size_t struct_size;
    xla_extension *extensions;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
} xla_buffer;

typedef struct xla_scalar {
    int dtype;
    void *value;
} xla_scalar;

typedef struct xla_text {
    const char *at;
    size_t length;
} xla_text;

/* Arguments, and results. */
typedef struct xla_values {
    size_t struct_size;
    xla_extension *extensions;
    int64_t count;
    int *type;
    void **value;
} xla_values;

typedef struct xla_attributes {
    size_t struct_size;
    xla_extension *extensions;
    int64_t count;
    int *type;
    xla_text **name;
    void **value;
} xla_attributes;

typedef struct xla_error xla_error;     /* NULL: none */
typedef struct xla_context xla_context; /* of an execution */

typedef struct xla_make_error {
    size_t struct_size;
    xla_extension *extensions;
    const char *message;
    int code;
} xla_make_error;

typedef struct xla_get_stream {
    size_t struct_size;
    xla_extension *extensions;
    xla_context *context;
    void *stream; /* out: a cudaStream_t */
} xla_get_stream;

typedef struct xla_api {
    size_t struct_size;
    xla_extension *extensions;
    xla_version version;
    const void *internal;
    xla_error *(*make_error)(xla_make_error *arguments);
    void *not_used[3];
    xla_error *(*get_stream)(xla_get_stream *arguments);
} xla_api;

typedef struct xla_call {
    size_t struct_size;
    xla_extension *extensions;
    const xla_api *api;
    xla_context *context;
    int stage;
    xla_values arguments;
    xla_values results;
    xla_attributes attributes;
} xla_call;

#endif
