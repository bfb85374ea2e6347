# How modules add to the two libraries: plain sources with target_sources(), sources compiled several times with
# ole_kernels() and ole_variant(), other libraries with ole_optional_library() and ole_required_library().

# ole_variant(OWNER NAME DEFINITIONS... [OPTIONS...] SOURCES...): sources compiled once more with settings of their own, as
# objects of the library whose plain sources are in the target OWNER.
function(ole_variant owner name)
    cmake_parse_arguments(PARSE_ARGV 2 variant "" "" "DEFINITIONS;OPTIONS;SOURCES")
    add_library(${name} OBJECT ${variant_SOURCES})
    target_compile_definitions(${name} PRIVATE ${variant_DEFINITIONS})
    target_compile_options(${name} PRIVATE ${variant_OPTIONS})
    target_include_directories(${name} PRIVATE
        $<TARGET_PROPERTY:${owner},INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${name} PRIVATE ole_flags)
    set_property(GLOBAL APPEND PROPERTY ${owner}_VARIANTS $<TARGET_OBJECTS:${name}>)
endfunction()

# ole_kernels(OWNER SOURCE): a source compiled once per instruction set; the library picks one at run time.
function(ole_kernels owner source)
    get_filename_component(name ${source} NAME_WE)
    get_filename_component(module ${CMAKE_CURRENT_SOURCE_DIR} NAME)
    foreach(isa IN LISTS ole_isas)
        ole_variant(${owner} ${module}_${name}_${isa}
            SOURCES ${source}
            DEFINITIONS OLE_ISA=${isa}
            OPTIONS ${ole_kernel_options} ${ole_isa_flags_${isa}})
    endforeach()
endfunction()

# ole_optional_library(OWNER PACKAGE DEFINITION TARGET WHAT ROW SOURCES...): a library that OWNER can do without, and the
# sources that need it; `ole info` shows in ROW whether WHAT was found.
function(ole_optional_library owner package definition target what row)
    find_package(${package} QUIET)
    if(TARGET ${target})
        target_compile_definitions(${owner} PUBLIC ${definition}=1)
        target_link_libraries(${owner} PUBLIC ${target})
        target_sources(${owner} PRIVATE ${ARGN})
        ole_part("${row}" "${what}")
    else()
        list(JOIN package " " package)
        ole_part("${row}" "not built (${package} not found)")
    endif()
endfunction()

# ole_required_library(OWNER NAME HEADER PACKAGE): links a library that has no CMake package of its own.
function(ole_required_library owner name header package)
    string(TOUPPER ${name} upper)
    find_library(${upper}_LIBRARY NAMES ${name})
    find_path(${upper}_INCLUDE_DIR NAMES ${header})
    if(NOT ${upper}_LIBRARY OR NOT ${upper}_INCLUDE_DIR)
        message(FATAL_ERROR "Training needs lib${name} and ${header} (Debian: ${package}); "
            "install them, or configure with -DOLE_TRAIN=OFF")
    endif()
    target_include_directories(${owner} PRIVATE ${${upper}_INCLUDE_DIR})
    target_link_libraries(${owner} PUBLIC ${${upper}_LIBRARY})
endfunction()

# ole_shared_library(NAME OBJECTS HEADERS...): the shared library NAME from a target of objects and its variants. It
# exports what HEADERS declare with OLE_API under the version OLE_0.2, and what private headers mark with OLE_INTERNAL
# under OLE_PRIVATE, for the project's other libraries and its program.
function(ole_shared_library name objects)
    set(public)
    foreach(header IN LISTS ARGN)
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
        file(STRINGS ${header} declared REGEX "^OLE_API")
        list(TRANSFORM declared REPLACE "\\(.*" "")
        list(TRANSFORM declared REPLACE ".*[ *]" "")
        list(APPEND public ${declared})
    endforeach()
    list(JOIN public "; " public)
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${name}.map)
    file(CONFIGURE OUTPUT ${script} @ONLY CONTENT
        "OLE_@ole_soversion@ { global: @public@; };\nOLE_PRIVATE_@PROJECT_VERSION@ { global: ole_*; local: *; };\n")

    get_property(variants GLOBAL PROPERTY ${objects}_VARIANTS)
    add_library(${name} SHARED ${variants})
    add_library(ole::${name} ALIAS ${name})
    target_link_libraries(${name} PRIVATE ${objects})
    target_link_options(${name} PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${script}
        $<$<NOT:$<BOOL:${OLE_SANITIZE}>>:-Wl,--no-undefined>)
    target_include_directories(${name} PUBLIC
        $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
        $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_target_properties(${name} PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION ${ole_soversion} LINK_DEPENDS ${script}
        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()
