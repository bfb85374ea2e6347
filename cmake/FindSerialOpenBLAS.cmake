# Finds OpenBLAS for Olé, the serial variant if there is one, and LAPACK's header lapack.h.
#
# Why serial: OpenBLAS's own threads are process-wide and change the bits of a result; Olé threads
# over tiles of its own instead.  The serial and threaded variants share the soname libopenblas.so.0
# and Debian chooses between them by alternatives, so the directory found here also has to be in the
# RUNPATH of whatever links it.
#
#   SerialOpenBLAS_FOUND, SerialOpenBLAS_VARIANT   "serial", "static" or "default"
#   SerialOpenBLAS::SerialOpenBLAS                 the imported target (library and header)
#
# Set OLE_STATIC_BLAS before the call to get libopenblas.a and the Fortran runtime instead.

set(_serial_dirs)
if(CMAKE_LIBRARY_ARCHITECTURE)
    list(APPEND _serial_dirs /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial)
endif()

# A later configure with another OLE_STATIC_BLAS must not see the library of the first one.
if(OLE_STATIC_BLAS)
    set(_name libopenblas.a)
    set(_variable SerialOpenBLAS_STATIC_LIBRARY)
else()
    set(_name openblas)
    set(_variable SerialOpenBLAS_LIBRARY)
endif()
find_library(${_variable} NAMES ${_name} PATHS ${_serial_dirs} NO_DEFAULT_PATH)
find_library(${_variable} NAMES ${_name} PATH_SUFFIXES openblas)
find_path(SerialOpenBLAS_INCLUDE_DIR NAMES lapack.h PATH_SUFFIXES lapacke openblas)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SerialOpenBLAS
    REQUIRED_VARS ${_variable} SerialOpenBLAS_INCLUDE_DIR
    REASON_FAILURE_MESSAGE "install libopenblas-serial-dev and liblapacke-dev (Debian, Ubuntu)")

if(SerialOpenBLAS_FOUND)
    get_filename_component(_dir "${${_variable}}" DIRECTORY)
    if(OLE_STATIC_BLAS)
        set(SerialOpenBLAS_VARIANT static)
    elseif(_dir IN_LIST _serial_dirs)
        set(SerialOpenBLAS_VARIANT serial)
    else()
        set(SerialOpenBLAS_VARIANT default)
    endif()
    if(NOT TARGET SerialOpenBLAS::SerialOpenBLAS)
        add_library(SerialOpenBLAS::SerialOpenBLAS UNKNOWN IMPORTED)
        set_target_properties(SerialOpenBLAS::SerialOpenBLAS PROPERTIES
            IMPORTED_LOCATION "${${_variable}}"
            INTERFACE_INCLUDE_DIRECTORIES "${SerialOpenBLAS_INCLUDE_DIR}")
        if(OLE_STATIC_BLAS)
            # src/info.c refers to these weakly, which takes nothing out of an archive.
            set(_wanted openblas_get_config openblas_get_corename openblas_get_parallel)
            list(TRANSFORM _wanted PREPEND "-Wl,-u,")
            set_target_properties(SerialOpenBLAS::SerialOpenBLAS PROPERTIES
                INTERFACE_LINK_OPTIONS "${_wanted}"
                INTERFACE_LINK_LIBRARIES gfortran)
        endif()
    endif()
endif()

unset(_serial_dirs)
unset(_name)
unset(_variable)
unset(_dir)
unset(_wanted)
mark_as_advanced(SerialOpenBLAS_LIBRARY SerialOpenBLAS_STATIC_LIBRARY SerialOpenBLAS_INCLUDE_DIR)
