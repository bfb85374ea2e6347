/*
 * tests/python/xla_layout.c - our declarations of XLA's foreign function interface against the
 * header of an installed jaxlib (test_jax.py compiles this with jax.ffi.include_dir()).
 */
#include "xla_ffi.h"

#include "xla/ffi/api/c_api.h"

#define SAME(ours, our_field, theirs, their_field)                                                 \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) &&                   \
                       sizeof(((ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),       \
                   #ours "." #our_field " is not where " #theirs "." #their_field " is")

/* An extension by the field that holds one: version 0.4 gives its type another name. */
SAME(xla_metadata_extension, base.type, XLA_FFI_Metadata_Extension, extension_base.type);
SAME(xla_metadata_extension, base.next, XLA_FFI_Metadata_Extension, extension_base.next);
SAME(xla_version, major, XLA_FFI_Api_Version, major_version);
SAME(xla_version, minor, XLA_FFI_Api_Version, minor_version);
SAME(xla_metadata, version, XLA_FFI_Metadata, api_version);
SAME(xla_metadata, traits, XLA_FFI_Metadata, traits);
SAME(xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(xla_buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(xla_buffer, data, XLA_FFI_Buffer, data);
SAME(xla_buffer, rank, XLA_FFI_Buffer, rank);
SAME(xla_buffer, dims, XLA_FFI_Buffer, dims);
SAME(xla_scalar, dtype, XLA_FFI_Scalar, dtype);
SAME(xla_scalar, value, XLA_FFI_Scalar, value);
SAME(xla_text, at, XLA_FFI_ByteSpan, ptr);
SAME(xla_text, length, XLA_FFI_ByteSpan, len);
SAME(xla_values, count, XLA_FFI_Args, size);
SAME(xla_values, type, XLA_FFI_Args, types);
SAME(xla_values, value, XLA_FFI_Args, args);
SAME(xla_values, count, XLA_FFI_Rets, size);
SAME(xla_values, value, XLA_FFI_Rets, rets);
SAME(xla_attributes, type, XLA_FFI_Attrs, types);
SAME(xla_attributes, name, XLA_FFI_Attrs, names);
SAME(xla_attributes, value, XLA_FFI_Attrs, attrs);
SAME(xla_make_error, message, XLA_FFI_Error_Create_Args, message);
SAME(xla_make_error, code, XLA_FFI_Error_Create_Args, errc);
SAME(xla_get_stream, context, XLA_FFI_Stream_Get_Args, ctx);
SAME(xla_get_stream, stream, XLA_FFI_Stream_Get_Args, stream);
SAME(xla_api, version, XLA_FFI_Api, api_version);
SAME(xla_api, make_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(xla_api, get_stream, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME(xla_call, extensions, XLA_FFI_CallFrame, extension_start);
SAME(xla_call, api, XLA_FFI_CallFrame, api);
SAME(xla_call, context, XLA_FFI_CallFrame, ctx);
SAME(xla_call, stage, XLA_FFI_CallFrame, stage);
SAME(xla_call, arguments, XLA_FFI_CallFrame, args);
SAME(xla_call, results, XLA_FFI_CallFrame, rets);
SAME(xla_call, attributes, XLA_FFI_CallFrame, attrs);

#define EQUAL(ours, theirs) _Static_assert((int)ours == (int)theirs, #ours " is not " #theirs)

EQUAL(XLA_MAJOR, XLA_FFI_API_MAJOR);
EQUAL(XLA_METADATA, XLA_FFI_Extension_Metadata);
EQUAL(XLA_STAGE_EXECUTE, XLA_FFI_ExecutionStage_EXECUTE);
EQUAL(XLA_BUFFER, XLA_FFI_ArgType_BUFFER);
EQUAL(XLA_BUFFER, XLA_FFI_RetType_BUFFER);
EQUAL(XLA_SCALAR, XLA_FFI_AttrType_SCALAR);
EQUAL(XLA_INVALID_ARGUMENT, XLA_FFI_Error_Code_INVALID_ARGUMENT);
EQUAL(XLA_RESOURCE_EXHAUSTED, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
EQUAL(XLA_INTERNAL, XLA_FFI_Error_Code_INTERNAL);
EQUAL(XLA_S32, XLA_FFI_DataType_S32);
EQUAL(XLA_S64, XLA_FFI_DataType_S64);
EQUAL(XLA_U32, XLA_FFI_DataType_U32);
EQUAL(XLA_U64, XLA_FFI_DataType_U64);
EQUAL(XLA_F32, XLA_FFI_DataType_F32);
EQUAL(XLA_F64, XLA_FFI_DataType_F64);
