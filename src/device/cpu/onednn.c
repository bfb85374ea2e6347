/*
 * src/device/cpu/onednn.c - convolutions by oneDNN, versions 2 and 3.
 *
 * Primitives own no memory: whatever they need while they run (scratchpads, reordered arrays) is
 * part of the scratch the caller passes in.
 */
#include "device/cpu/onednn.h"

#include "base/cpu.h"
#include "base/error.h"

#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

struct cpu_dnn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
};

/* ---- differences between the versions ----------------------------------------------------- */

enum { X, WEIGHT, BIAS, Y, ARRAYS };

/* For inference, Winograd requires weights in a private layout that nothing converts to; for
 * training it takes the same as the other passes. */
static dnnl_prop_kind_t forward_kind(const cpu_conv_spec *s) {
    return s->train || s->winograd ? dnnl_forward_training : dnnl_forward_inference;
}

#if DNNL_VERSION_MAJOR >= 3

typedef const_dnnl_memory_desc_t description;
typedef struct descriptions {
    dnnl_memory_desc_t of[ARRAYS];
} descriptions;

static description description_of(const descriptions *d, int i) {
    return d->of[i];
}

static bool describe_array(descriptions *d, int i, int ndims, const dnnl_dims_t dims,
                           dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(&d->of[i], ndims, dims, type, tag) == dnnl_success;
}

/* The same array with its first two axes exchanged. */
static bool transpose(descriptions *d, int i) {
    static const int axes[] = {1, 0, 2, 3};
    dnnl_memory_desc_t swapped = NULL;
    if (dnnl_memory_desc_permute_axes(&swapped, d->of[i], axes) != dnnl_success) return false;
    dnnl_memory_desc_destroy(d->of[i]);
    d->of[i] = swapped;
    return true;
}

static void free_descriptions(descriptions *d) {
    for (int i = 0; i < ARRAYS; i++)
        if (d->of[i]) dnnl_memory_desc_destroy(d->of[i]);
}

static bool append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef) == dnnl_success;
}

static dnnl_primitive_desc_t describe_pass(cpu_dnn *dnn, const cpu_conv_spec *s, cpu_pass pass,
                                           const descriptions *d, dnnl_primitive_attr_t attr,
                                           dnnl_primitive_desc_t hint) {
    dnnl_dims_t strides = {s->stride, s->stride}, pad = {s->pad, s->pad}, dilates = {0, 0};
    dnnl_alg_kind_t kind = s->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    const dnnl_memory_desc_t *of = d->of;
    dnnl_primitive_desc_t made = NULL;
    if (pass == CPU_FORWARD)
        dnnl_convolution_forward_primitive_desc_create(&made, dnn->engine, forward_kind(s), kind,
                                                       of[X], of[WEIGHT], of[BIAS], of[Y], strides,
                                                       dilates, pad, pad, attr);
    else if (pass == CPU_BACKWARD_ADD)
        dnnl_convolution_forward_primitive_desc_create(&made, dnn->engine, dnnl_forward_inference,
                                                       kind, of[Y], of[WEIGHT], NULL, of[X],
                                                       strides, dilates, pad, pad, attr);
    else if (pass == CPU_BACKWARD_DATA)
        dnnl_convolution_backward_data_primitive_desc_create(&made, dnn->engine, kind, of[X],
                                                             of[WEIGHT], of[Y], strides, dilates,
                                                             pad, pad, hint, attr);
    else
        dnnl_convolution_backward_weights_primitive_desc_create(
            &made, dnn->engine, kind, of[X], of[WEIGHT], of[BIAS], of[Y], strides, dilates, pad,
            pad, hint, attr);
    return made;
}

#else

typedef const dnnl_memory_desc_t *description;
typedef struct descriptions {
    dnnl_memory_desc_t of[ARRAYS];
    bool has[ARRAYS];
} descriptions;

static description description_of(const descriptions *d, int i) {
    return d->has[i] ? &d->of[i] : NULL;
}

static bool describe_array(descriptions *d, int i, int ndims, const dnnl_dims_t dims,
                           dnnl_data_type_t type, dnnl_format_tag_t tag) {
    d->has[i] = dnnl_memory_desc_init_by_tag(&d->of[i], ndims, dims, type, tag) == dnnl_success;
    return d->has[i];
}

/* The same array with its first two axes exchanged. */
static bool transpose(descriptions *d, int i) {
    static const int axes[] = {1, 0, 2, 3};
    dnnl_memory_desc_t given = d->of[i];
    return dnnl_memory_desc_permute_axes(&d->of[i], &given, axes) == dnnl_success;
}

static void free_descriptions(descriptions *d) {
    (void)d;
}

static bool append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1.0f) == dnnl_success;
}

static dnnl_primitive_desc_t describe_pass(cpu_dnn *dnn, const cpu_conv_spec *s, cpu_pass pass,
                                           const descriptions *d, dnnl_primitive_attr_t attr,
                                           dnnl_primitive_desc_t hint) {
    dnnl_dims_t strides = {s->stride, s->stride}, pad = {s->pad, s->pad};
    dnnl_alg_kind_t kind = s->winograd ? dnnl_convolution_winograd : dnnl_convolution_direct;
    description x = description_of(d, X), weight = description_of(d, WEIGHT);
    description bias = description_of(d, BIAS), y = description_of(d, Y);
    dnnl_convolution_desc_t op;
    dnnl_status_t status;
    if (pass == CPU_FORWARD)
        status = dnnl_convolution_forward_desc_init(&op, forward_kind(s), kind, x, weight, bias, y,
                                                    strides, pad, pad);
    else if (pass == CPU_BACKWARD_ADD)
        status = dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, kind, y, weight,
                                                    NULL, x, strides, pad, pad);
    else if (pass == CPU_BACKWARD_DATA)
        status =
            dnnl_convolution_backward_data_desc_init(&op, kind, x, weight, y, strides, pad, pad);
    else
        status = dnnl_convolution_backward_weights_desc_init(&op, kind, x, weight, bias, y, strides,
                                                             pad, pad);
    dnnl_primitive_desc_t made = NULL;
    if (status == dnnl_success) dnnl_primitive_desc_create(&made, &op, attr, dnn->engine, hint);
    return made;
}

#endif

/* ---- engine ------------------------------------------------------------------------------- */

/* oneDNN's names for the levels of base/cpu.h. */
static const struct {
    dnnl_cpu_isa_t isa;
    const char *name;
} LEVELS[] = {
    [OLE_CPU_GENERIC] = {dnnl_cpu_isa_sse41, "SSE41"},
    [OLE_CPU_AVX2] = {dnnl_cpu_isa_avx2, "AVX2"},
    [OLE_CPU_AVX512] = {dnnl_cpu_isa_avx512_core, "AVX512_CORE"},
    [OLE_CPU_AVX512_BF16] = {dnnl_cpu_isa_avx512_core_bf16, "AVX512_CORE_BF16"},
    [OLE_CPU_AMX] = {dnnl_cpu_isa_avx512_core_amx, "AVX512_CORE_AMX"},
};

static bool has(ole_cpu_level level) {
    unsigned isa = (unsigned)dnnl_get_effective_cpu_isa(), needed = (unsigned)LEVELS[level].isa;
    return (isa & needed) == needed;
}

/* Limits oneDNN to a level, unless the user has; false if it is already in use with more. */
static bool limit(ole_cpu_level level) {
    if (!getenv("ONEDNN_MAX_CPU_ISA") && !getenv("DNNL_MAX_CPU_ISA"))
        dnnl_set_max_cpu_isa(LEVELS[level].isa);
    return !has((ole_cpu_level)(level + 1));
}

/* ---- AMX ---------------------------------------------------------------------------------- */

#if defined(__x86_64__) && defined(__linux__)

enum { TILE_DATA = 18, REQUEST_PERMISSION = 0x1023, TILE_LEAF = 0x1d };

/* Tiles are 8 KiB of state per thread, which Linux grants only to processes that request it. */
bool cpu_has_amx(void) {
    return ole_cpu_allowed() >= OLE_CPU_AMX &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

/* oneDNN's AMX kernels read the tile sizes from CPUID and die with an illegal instruction on
 * virtual machines that offer AMX without describing it, so AMX is disabled there. */
static bool must_avoid_amx(void) {
    unsigned a, b, c, d;
    return ole_cpu_allowed() >= OLE_CPU_AMX &&
           !(__get_cpuid_count(TILE_LEAF, 0, &a, &b, &c, &d) && a > 0);
}

#else

bool cpu_has_amx(void) {
    return false;
}

static bool must_avoid_amx(void) {
    return false;
}

#endif

static ole_status limit_level(bool bf16, ole_error *error) {
    ole_cpu_level level = ole_cpu_allowed();
    if (ole_cpu_capped() && !limit(level))
        return ole_fail(error, OLE_ERROR_UNSUPPORTED,
                        "OLE_CPU is set, but oneDNN is already in use without that limit; also set "
                        "ONEDNN_MAX_CPU_ISA=%s before the program starts",
                        LEVELS[level].name);
    if (must_avoid_amx() && !limit(OLE_CPU_AVX512_BF16) && bf16)
        return ole_fail(
            error, OLE_ERROR_UNSUPPORTED,
            "this machine offers AMX without describing its tiles, and oneDNN is already "
            "in use; set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 for bf16");
    return OLE_OK;
}

void cpu_dnn_describe(char *text, size_t size) {
    limit_level(false, NULL);
    int level = OLE_CPU_AMX;
    while (level > OLE_CPU_GENERIC && !has((ole_cpu_level)level))
        level--;
    const dnnl_version_t *version = dnnl_version();
    snprintf(text, size, "%d.%d.%d, %s", version->major, version->minor, version->patch,
             LEVELS[level].name);
}

ole_status cpu_dnn_create(cpu_dnn **result, bool bf16, ole_error *error) {
    ole_status status = limit_level(bf16, error);
    if (status != OLE_OK) return status;
    cpu_dnn *dnn = calloc(1, sizeof *dnn);
    if (!dnn) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    if (dnnl_engine_create(&dnn->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&dnn->stream, dnn->engine, dnnl_stream_default_flags) != dnnl_success) {
        cpu_dnn_destroy(dnn);
        return ole_fail(error, OLE_ERROR_UNSUPPORTED, "oneDNN has no CPU engine; use --device ref");
    }
    *result = dnn;
    return OLE_OK;
}

void cpu_dnn_destroy(cpu_dnn *dnn) {
    if (!dnn) return;
    if (dnn->stream) dnnl_stream_destroy(dnn->stream);
    if (dnn->engine) dnnl_engine_destroy(dnn->engine);
    free(dnn);
}

int cpu_dnn_block(void) {
    return has(OLE_CPU_AVX512) ? 16 : 8;
}

/* ---- convolutions ------------------------------------------------------------------------- */

/* An array of a primitive, and how it is obtained from the caller's. */
typedef struct slot {
    int array; /* which of cpu_conv_arrays: X to Y */
    int argument;
    bool written;
    dnnl_memory_t given;
    dnnl_memory_t own; /* in the primitive's order, in scratch; NULL: uses `given` */
    dnnl_primitive_t reorder;
    size_t offset; /* of `own` in scratch */
} slot;

struct cpu_conv {
    cpu_dnn *dnn;
    dnnl_primitive_t primitive;
    slot slot[ARRAYS];
    int slots;
    dnnl_memory_t scratchpad;
    size_t own_bytes, pad_bytes; /* scratch: reordered arrays, then the scratchpad */
};

static dnnl_format_tag_t activation_tag(cpu_format format) {
    if (format == CPU_PLAIN) return dnnl_nchw;
    return cpu_dnn_block() == 16 ? dnnl_nChw16c : dnnl_nChw8c;
}

static dnnl_format_tag_t weight_tag(cpu_format format) {
    if (format == CPU_PLAIN) return dnnl_oihw;
    return cpu_dnn_block() == 16 ? dnnl_OIhw16i16o : dnnl_OIhw8i8o;
}

static bool has_bias(const cpu_conv_spec *s) {
    return s->bias && (s->pass == CPU_FORWARD || s->pass == CPU_BACKWARD_WEIGHTS);
}

/* The element type of an array, the caller's or the primitive's own.  Weights are stored, and
 * their gradients returned, as float. */
static dnnl_data_type_t type_of(const cpu_conv_spec *s, int array, bool own) {
    if (!s->bf16 || array == BIAS) return dnnl_f32;
    if (array == WEIGHT) return own && s->pass != CPU_BACKWARD_WEIGHTS ? dnnl_bf16 : dnnl_f32;
    return own || (array == X ? s->x : s->y) == CPU_BLOCKED ? dnnl_bf16 : dnnl_f32;
}

/*
 * Describes the arrays as the caller has them, or as the primitive prefers them (`own`, and with
 * `any_activation` for x and y too).  CPU_BACKWARD_ADD is a forward convolution of dy with the
 * transposed weights.
 */
static bool describe_arrays(descriptions *d, const cpu_conv_spec *s, bool own,
                            bool any_activation) {
    dnnl_dims_t x = {s->n, s->in, s->in_h, s->in_w}, y = {s->n, s->out, s->out_h, s->out_w};
    dnnl_dims_t weight = {s->out, s->in, s->kernel, s->kernel}, bias = {s->out};
    dnnl_dims_t swapped = {s->in, s->out, s->kernel, s->kernel};
    dnnl_format_tag_t any = dnnl_format_tag_any;
    bool swap = s->pass == CPU_BACKWARD_ADD;
    *d = (descriptions){0};
    dnnl_data_type_t wtype = type_of(s, WEIGHT, own);
    return describe_array(d, X, 4, x, type_of(s, X, own),
                          any_activation ? any : activation_tag(s->x)) &&
           describe_array(d, Y, 4, y, type_of(s, Y, own),
                          any_activation ? any : activation_tag(s->y)) &&
           (own ? describe_array(d, WEIGHT, 4, swap ? swapped : weight, wtype, any)
                : describe_array(d, WEIGHT, 4, weight, wtype, weight_tag(s->weight))) &&
           (own || !swap || transpose(d, WEIGHT)) &&
           (!has_bias(s) || describe_array(d, BIAS, 1, bias, dnnl_f32, dnnl_x));
}

static const char *name_of(dnnl_primitive_desc_t made) {
    const char *name = NULL;
    dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, (void *)&name);
    return name ? name : "";
}

/* An implementation for these arrays, or NULL. slow: accept oneDNN's slow reference. */
static dnnl_primitive_desc_t find_implementation(cpu_dnn *dnn, const cpu_conv_spec *s,
                                                 dnnl_primitive_attr_t attr, bool any_activation,
                                                 bool slow) {
    descriptions d;
    dnnl_primitive_desc_t made = NULL, hint = NULL;
    if (describe_arrays(&d, s, true, any_activation)) {
        if (s->pass == CPU_BACKWARD_DATA || s->pass == CPU_BACKWARD_WEIGHTS)
            hint = describe_pass(dnn, s, CPU_FORWARD, &d, attr, NULL);
        made = describe_pass(dnn, s, s->pass, &d, attr, hint);
    }
    free_descriptions(&d);
    if (hint) dnnl_primitive_desc_destroy(hint);
    if (made && !slow && strncmp(name_of(made), "ref", 3) == 0) {
        dnnl_primitive_desc_destroy(made);
        made = NULL;
    }
    return made;
}

static void grow(size_t *to, description d) {
    size_t bytes = d ? dnnl_memory_desc_get_size(d) : 0;
    if (bytes > *to) *to = bytes;
}

/* A reorder between what is given and the primitive's own order. */
static bool make_reorder(cpu_conv *conv, slot *s, description given, description own,
                         dnnl_primitive_attr_t attr) {
    dnnl_engine_t engine = conv->dnn->engine;
    dnnl_primitive_desc_t made = NULL;
    if (dnnl_memory_create(&s->own, own, engine, DNNL_MEMORY_NONE) != dnnl_success ||
        dnnl_reorder_primitive_desc_create(&made, s->written ? own : given, engine,
                                           s->written ? given : own, engine, attr) != dnnl_success)
        return false;
    bool good = dnnl_primitive_create(&s->reorder, made) == dnnl_success;
    grow(&conv->pad_bytes, dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0));
    dnnl_primitive_desc_destroy(made);
    s->offset = conv->own_bytes;
    conv->own_bytes += (dnnl_memory_desc_get_size(own) + 63) / 64 * 64;
    return good;
}

/* oneDNN's argument and query for an array of a pass, and whether the pass writes it. */
typedef struct role {
    int argument;
    dnnl_query_t query;
    bool written;
} role;

static role role_of(cpu_pass pass, int array) {
    static const role roles[CPU_PASSES][ARRAYS] = {
        [CPU_FORWARD] = {[X] = {DNNL_ARG_SRC, dnnl_query_src_md, false},
                         [WEIGHT] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, false},
                         [BIAS] = {DNNL_ARG_BIAS, dnnl_query_weights_md, false},
                         [Y] = {DNNL_ARG_DST, dnnl_query_dst_md, true}},
        [CPU_BACKWARD_DATA] = {[X] = {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, true},
                               [WEIGHT] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, false},
                               [Y] = {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, false}},
        [CPU_BACKWARD_WEIGHTS] = {[X] = {DNNL_ARG_SRC, dnnl_query_src_md, false},
                                  [WEIGHT] = {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md,
                                              true},
                                  [BIAS] = {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, true},
                                  [Y] = {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, false}},
        [CPU_BACKWARD_ADD] = {[X] = {DNNL_ARG_DST, dnnl_query_dst_md, true},
                              [WEIGHT] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, false},
                              [Y] = {DNNL_ARG_SRC, dnnl_query_src_md, false}}};
    return roles[pass][array];
}

static bool make_slots(cpu_conv *conv, const cpu_conv_spec *spec, dnnl_primitive_desc_t made,
                       dnnl_primitive_attr_t attr) {
    descriptions d;
    bool good = describe_arrays(&d, spec, false, false);
    for (int array = 0; array < ARRAYS && good; array++) {
        description given = description_of(&d, array);
        if (!given) continue;
        role r = role_of(spec->pass, array);
        description own = dnnl_primitive_desc_query_md(made, r.query, array == BIAS ? 1 : 0);
        slot *s = &conv->slot[conv->slots++];
        *s = (slot){.array = array, .argument = r.argument, .written = r.written};
        good = dnnl_memory_create(&s->given, given, conv->dnn->engine, DNNL_MEMORY_NONE) ==
                   dnnl_success &&
               (dnnl_memory_desc_equal(given, own) || make_reorder(conv, s, given, own, attr));
    }
    free_descriptions(&d);
    return good;
}

/* Attributes: scratch from the caller; if `add`, the result is added to the destination. */
static dnnl_primitive_attr_t make_attributes(bool add) {
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (!add) return attr;
    if (dnnl_post_ops_create(&ops) != dnnl_success || !append_sum(ops) ||
        dnnl_primitive_attr_set_post_ops(attr, ops) != dnnl_success) {
        dnnl_primitive_attr_destroy(attr);
        attr = NULL;
    }
    if (ops) dnnl_post_ops_destroy(ops);
    return attr;
}

static bool make_conv(cpu_conv *conv, const cpu_conv_spec *spec, dnnl_primitive_desc_t made) {
    dnnl_primitive_attr_t plain = make_attributes(false);
    description pad = dnnl_primitive_desc_query_md(made, dnnl_query_scratchpad_md, 0);
    grow(&conv->pad_bytes, pad);
    bool good = plain && dnnl_primitive_create(&conv->primitive, made) == dnnl_success &&
                dnnl_memory_create(&conv->scratchpad, pad, conv->dnn->engine, DNNL_MEMORY_NONE) ==
                    dnnl_success &&
                make_slots(conv, spec, made, plain);
    if (plain) dnnl_primitive_attr_destroy(plain);
    return good;
}

ole_status cpu_conv_create(cpu_conv **result, cpu_dnn *dnn, const cpu_conv_spec *spec,
                           ole_error *error) {
    *result = NULL;
    bool optional = spec->winograd || spec->pass == CPU_BACKWARD_ADD;
    dnnl_primitive_attr_t attr = make_attributes(spec->pass == CPU_BACKWARD_ADD);
    if (!attr) return ole_fail(error, OLE_ERROR_MEMORY, "out of memory");
    dnnl_primitive_desc_t made = find_implementation(dnn, spec, attr, false, false);
    if (!made && !optional) made = find_implementation(dnn, spec, attr, true, true);
    ole_status status = OLE_OK;
    if (made) {
        cpu_conv *conv = calloc(1, sizeof *conv);
        if (conv) conv->dnn = dnn;
        if (conv && make_conv(conv, spec, made)) {
            *result = conv;
        } else {
            cpu_conv_destroy(conv);
            status = ole_fail(error, OLE_ERROR_MEMORY, "oneDNN cannot create a convolution");
        }
        dnnl_primitive_desc_destroy(made);
    } else if (!optional) {
        status = ole_fail(error, OLE_ERROR_UNSUPPORTED,
                          "oneDNN has no convolution for kernel %d, stride %d, padding %d of "
                          "%lldx%lldx%lld; try --device ref",
                          spec->kernel, spec->stride, spec->pad, (long long)spec->in,
                          (long long)spec->in_h, (long long)spec->in_w);
    }
    dnnl_primitive_attr_destroy(attr);
    return status;
}

void cpu_conv_destroy(cpu_conv *conv) {
    if (!conv) return;
    for (int i = 0; i < conv->slots; i++) {
        if (conv->slot[i].given) dnnl_memory_destroy(conv->slot[i].given);
        if (conv->slot[i].own) dnnl_memory_destroy(conv->slot[i].own);
        if (conv->slot[i].reorder) dnnl_primitive_destroy(conv->slot[i].reorder);
    }
    if (conv->scratchpad) dnnl_memory_destroy(conv->scratchpad);
    if (conv->primitive) dnnl_primitive_destroy(conv->primitive);
    free(conv);
}

size_t cpu_conv_scratch(const cpu_conv *conv) {
    return conv ? conv->own_bytes + conv->pad_bytes : 0;
}

static void reorder(const cpu_conv *conv, const slot *s) {
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, s->written ? s->own : s->given},
                              {DNNL_ARG_TO, s->written ? s->given : s->own},
                              {DNNL_ARG_SCRATCHPAD, conv->scratchpad}};
    dnnl_primitive_execute(s->reorder, conv->dnn->stream, 3, args);
}

void cpu_conv_run(cpu_conv *conv, const cpu_conv_arrays *arrays) {
    void *array[ARRAYS] = {
        [X] = arrays->x, [WEIGHT] = arrays->weight, [BIAS] = arrays->bias, [Y] = arrays->y};
    dnnl_exec_arg_t args[ARRAYS + 1];
    dnnl_memory_set_data_handle(conv->scratchpad, (char *)arrays->scratch + conv->own_bytes);
    for (int i = 0; i < conv->slots; i++) {
        slot *s = &conv->slot[i];
        dnnl_memory_set_data_handle(s->given, array[s->array]);
        if (s->own) dnnl_memory_set_data_handle(s->own, (char *)arrays->scratch + s->offset);
        if (s->own && !s->written) reorder(conv, s);
        args[i] = (dnnl_exec_arg_t){s->argument, s->own ? s->own : s->given};
    }
    args[conv->slots] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, conv->scratchpad};
    dnnl_primitive_execute(conv->primitive, conv->dnn->stream, conv->slots + 1, args);
    for (int i = 0; i < conv->slots; i++)
        if (conv->slot[i].own && conv->slot[i].written) reorder(conv, &conv->slot[i]);
}
