# libole_cuda.so: the GPU code, a module that libole.so loads when a GPU is first needed (src/base/cuda_module.h).
# Built where nvcc, cuBLAS and cuDNN are installed.

option(OLE_CUDA "Build the CUDA module where nvcc is found" ON)
set(OLE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING
    "GPUs to compile for: machine code for 8.0 and 9.0, and PTX of 9.0 for newer ones")

set(cuda_missing "")
if(OLE_CUDA)
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
        set(CMAKE_CUDA_ARCHITECTURES ${OLE_CUDA_ARCHITECTURES})
        enable_language(CUDA)
        find_package(CUDAToolkit)
        find_path(CUDNN_INCLUDE_DIR NAMES cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
        find_library(CUDNN_LIBRARY NAMES cudnn HINTS ${CUDAToolkit_LIBRARY_DIR}
            ${CUDAToolkit_LIBRARY_DIR}/../lib)
        find_path(NCCL_INCLUDE_DIR NAMES nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
        mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY NCCL_INCLUDE_DIR)
        if(NOT TARGET CUDA::cublas)
            set(cuda_missing "not built (cuBLAS not found)")
        elseif(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
            set(cuda_missing "not built (cuDNN not found)")
        endif()
    else()
        set(cuda_missing "not built (nvcc not found)")
    endif()
else()
    set(cuda_missing "off (OLE_CUDA)")
endif()

if(cuda_missing)
    ole_part("CUDA" "${cuda_missing}")
    return()
endif()

add_library(ole_cuda MODULE)
add_subdirectory(loss/cuda)
add_subdirectory(loss/criteria/cuda)
add_subdirectory(device/cuda)
set_target_properties(ole_cuda PROPERTIES
    PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} INSTALL_RPATH "$ORIGIN"
    CUDA_STANDARD 17 CUDA_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    CUDA_RUNTIME_LIBRARY Static)
target_include_directories(ole_cuda PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_include_directories(ole_cuda SYSTEM PRIVATE
    ${CUDNN_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(ole_cuda PRIVATE _GNU_SOURCE OLE_CUDA_MODULE=1)
if(NCCL_INCLUDE_DIR) # the library itself is loaded when it is needed (nccl.c)
    target_include_directories(ole_cuda SYSTEM PRIVATE ${NCCL_INCLUDE_DIR})
    target_compile_definitions(ole_cuda PRIVATE OLE_HAVE_NCCL=1)
endif()
target_compile_options(ole_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wstrict-prototypes
        -Wmissing-prototypes $<$<BOOL:${OLE_WERROR}>:-Werror>>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra
        $<$<BOOL:${OLE_WERROR}>:-Werror=all-warnings> -lineinfo>)
target_link_libraries(ole_cuda PRIVATE
    ole CUDA::cudart_static CUDA::cublas CUDA::cublasLt ${CUDNN_LIBRARY} Threads::Threads
    ${CMAKE_DL_LIBS} m)
list(JOIN OLE_CUDA_ARCHITECTURES ", " cuda_gpus)
if(NCCL_INCLUDE_DIR)
    ole_part("CUDA" "${CUDAToolkit_VERSION}, for ${cuda_gpus}, ranks through NCCL")
else()
    ole_part("CUDA" "${CUDAToolkit_VERSION}, for ${cuda_gpus}, ranks without NCCL (no nccl.h)")
endif()
