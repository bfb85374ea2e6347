# The rooms that exist for training (device, net, data, train, study): their sources, added to
# ole_objects, and the libraries they use, each found here and reported by ole_part().

# ---- device -------------------------------------------------------------------------------------

# The reference backend, once for each element type; like the kernels, objects beside ole_objects.
set(ole_ref_float ref)
set(ole_ref_double ref64)
foreach(real IN ITEMS float double)
    set(target ole_${ole_ref_${real}})
    add_library(${target} OBJECT
        src/device/ref/backend.c
        src/device/ref/conv.c
        src/device/ref/linear.c
        src/device/ref/norm.c
        src/device/ref/pointwise.c
        src/device/ref/pool.c
        src/device/ref/softmax.c
        src/device/ref/update.c)
    target_compile_definitions(${target} PRIVATE OLE_REAL=${real} OLE_REF=${ole_ref_${real}})
    target_include_directories(${target} PRIVATE
        $<TARGET_PROPERTY:ole_objects,INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${target} PRIVATE ole_flags)
    list(APPEND ole_kernel_objects $<TARGET_OBJECTS:${target}>)
endforeach()

# The fast CPU backend, where oneDNN is. Its kernels are compiled for each instruction set with those
# of linalg.
find_path(ONEDNN_INCLUDE_DIR NAMES oneapi/dnnl/dnnl.h)
find_library(ONEDNN_LIBRARY NAMES dnnl)
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY)
if(ONEDNN_INCLUDE_DIR AND ONEDNN_LIBRARY)
    file(STRINGS ${ONEDNN_INCLUDE_DIR}/oneapi/dnnl/dnnl_version.h onednn_version
        REGEX "^#define DNNL_VERSION_(MAJOR|MINOR|PATCH) ")
    list(TRANSFORM onednn_version REPLACE "[^0-9]" "")
    list(JOIN onednn_version "." onednn_version)
endif()
if(onednn_version VERSION_GREATER_EQUAL 2.5)
    set(OLE_HAVE_ONEDNN ON)
    target_compile_definitions(ole_objects PUBLIC OLE_HAVE_ONEDNN=1)
    target_include_directories(ole_objects PRIVATE ${ONEDNN_INCLUDE_DIR})
    target_link_libraries(ole_objects PUBLIC ${ONEDNN_LIBRARY})
    set(ole_device_kernels src/device/cpu/kernels.c)
    target_sources(ole_objects PRIVATE
        src/device/cpu/adapt.c
        src/device/cpu/backend.c
        src/device/cpu/concat.c
        src/device/cpu/conv.c
        src/device/cpu/conv_tiles.c
        src/device/cpu/gemm.c
        src/device/cpu/isa.c
        src/device/cpu/layout.c
        src/device/cpu/linear.c
        src/device/cpu/norm.c
        src/device/cpu/onednn.c
        src/device/cpu/parallel.c
        src/device/cpu/pointwise.c
        src/device/cpu/pool.c
        src/device/cpu/softmax.c
        src/device/cpu/update.c)
    # The kernels once more, for tensors of bfloat16, where the compiler knows the instructions.
    set(bf16_flags -mavx512f -mavx512dq -mavx512vl -mavx512bw -mfma -mavx512bf16 -mamx-tile -mamx-bf16)
    list(JOIN bf16_flags " " flags)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
        check_c_compiler_flag("${flags}" OLE_HAVE_AVX512BF16)
    endif()
    if(OLE_HAVE_AVX512BF16)
        target_compile_definitions(ole_objects PUBLIC OLE_HAVE_CPU_BF16=1)
        add_library(ole_kernels_avx512bf16 OBJECT
            src/device/cpu/amx.c src/device/cpu/kernels.c)
        target_compile_definitions(ole_kernels_avx512bf16 PRIVATE OLE_ISA=avx512bf16)
        target_compile_options(ole_kernels_avx512bf16 PRIVATE
            -O3 -ffp-contract=fast ${bf16_flags} -Wno-psabi)
        target_include_directories(ole_kernels_avx512bf16 PRIVATE
            $<TARGET_PROPERTY:ole_objects,INTERFACE_INCLUDE_DIRECTORIES>)
        target_link_libraries(ole_kernels_avx512bf16 PRIVATE ole_flags)
        list(APPEND ole_kernel_objects $<TARGET_OBJECTS:ole_kernels_avx512bf16>)
    endif()
    ole_part("device cpu" "oneDNN ${onednn_version}")
else()
    ole_part("device cpu" "off (oneDNN 2.5 or later not found: Debian has libdnnl-dev)")
endif()

# ---- net ----------------------------------------------------------------------------------------

target_sources(ole_objects PRIVATE
    src/net/graph.c
    src/net/layers.c
    src/net/memory.c
    src/net/net.c
    src/net/notation.c
    src/net/params.c
    src/net/plan.c
    src/net/suggest.c
    src/net/zoo.c)

# ---- data ---------------------------------------------------------------------------------------

# ole_data_library(PACKAGE DEFINITION TARGET WHAT ROW): a library that reading data can do without;
# `ole info` shows under ROW whether WHAT is there.
function(ole_data_library package definition target what row)
    find_package(${package} QUIET)
    if(TARGET ${target})
        target_compile_definitions(ole_objects PUBLIC ${definition}=1)
        target_link_libraries(ole_objects PUBLIC ${target})
        ole_part("${row}" "${what}")
    else()
        ole_part("${row}" "not built (${package} not found)")
    endif()
endfunction()

ole_data_library(PNG OLE_HAVE_PNG PNG::PNG "libpng" "png images")
ole_data_library(JPEG OLE_HAVE_JPEG JPEG::JPEG "libjpeg" "jpeg images")
ole_data_library(Matio OLE_HAVE_MATIO Matio::Matio "matio" ".mat (SVHN)")
ole_data_library(CURL OLE_HAVE_CURL CURL::libcurl "libcurl" "downloads")
ole_data_library(LibArchive OLE_HAVE_ARCHIVE LibArchive::LibArchive "libarchive" "tar.gz, zip")

target_sources(ole_objects PRIVATE
    src/data/augment.c
    src/data/checksum.c
    src/data/cifar.c
    src/data/dataset.c
    src/data/digits.c
    src/data/digits_data.c
    src/data/download.c
    src/data/find.c
    src/data/folder.c
    src/data/generated.c
    src/data/idx.c
    src/data/image.c
    src/data/image_fit.c
    src/data/image_jpeg.c
    src/data/image_png.c
    src/data/known.c
    src/data/loader.c
    src/data/npy.c
    src/data/order.c
    src/data/orientation.c
    src/data/shared.c
    src/data/source.c
    src/data/split.c
    src/data/statistics.c
    src/data/stl10.c
    src/data/stream.c
    src/data/svhn.c
    src/data/unpack.c)

# ---- train --------------------------------------------------------------------------------------

# ole_train_library(NAME HEADER PACKAGE): links a library that has no CMake package of its own.
function(ole_train_library name header package)
    string(TOUPPER ${name} upper)
    find_library(${upper}_LIBRARY NAMES ${name})
    find_path(${upper}_INCLUDE_DIR NAMES ${header})
    if(NOT ${upper}_LIBRARY OR NOT ${upper}_INCLUDE_DIR)
        message(FATAL_ERROR "Training needs lib${name} and ${header} (Debian: ${package}); "
            "install them, or configure with -DOLE_TRAIN=OFF")
    endif()
    target_include_directories(ole_objects PRIVATE ${${upper}_INCLUDE_DIR})
    target_link_libraries(ole_objects PUBLIC ${${upper}_LIBRARY})
endfunction()

ole_train_library(jansson jansson.h libjansson-dev)
ole_train_library(yaml yaml.h libyaml-dev)
ole_train_library(z zlib.h zlib1g-dev)

target_sources(ole_objects PRIVATE
    src/analyze/calibration.c
    src/analyze/evaluate.c
    src/analyze/novelty.c
    src/analyze/novelty_collect.c
    src/base/protobuf.c
    src/base/safetensors.c
    src/train/bench.c
    src/train/bench_data.c
    src/train/bench_queue.c
    src/train/bench_ranks.c
    src/train/caffe.c
    src/train/card.c
    src/train/checkpoint.c
    src/train/choose.c
    src/train/crew.c
    src/train/evaluate.c
    src/train/folder.c
    src/train/history.c
    src/train/init_from.c
    src/train/link.c
    src/train/loop.c
    src/train/metrics.c
    src/train/model.c
    src/train/network.c
    src/train/onnx.c
    src/train/onnx_graph.c
    src/train/onnx_values.c
    src/train/options.c
    src/train/place.c
    src/train/queue.c
    src/train/queue_evaluate.c
    src/train/queue_ole.c
    src/train/recipe.c
    src/train/reduce.c
    src/train/reduce_device.c
    src/train/run.c
    src/train/samples.c
    src/train/schedule.c
    src/train/score.c
    src/train/seeds.c
    src/train/spec.c
    src/train/step.c
    src/train/together.c)

# ---- study --------------------------------------------------------------------------------------

target_sources(ole_objects PRIVATE
    src/study/plan.c
    src/study/record.c
    src/study/report.c
    src/study/results.c
    src/study/study.c
    src/study/work.c)
