# The table of optional parts: collected by ole_part(), printed by ole_parts_finish(), and written
# to build_parts.h for ole_info().

function(ole_part name value)
    set_property(GLOBAL APPEND PROPERTY OLE_PART_NAMES "${name}")
    set_property(GLOBAL APPEND PROPERTY OLE_PART_VALUES "${value}")
endfunction()

# A part behind an option: `value`, or "off".
function(ole_option_part name option value)
    if(NOT ${option})
        set(value "off (${option})")
    endif()
    ole_part("${name}" "${value}")
endfunction()

function(ole_parts_finish header)
    get_property(names GLOBAL PROPERTY OLE_PART_NAMES)
    get_property(values GLOBAL PROPERTY OLE_PART_VALUES)
    set(rows)
    message(STATUS "Olé ${PROJECT_VERSION}:")
    foreach(name value IN ZIP_LISTS names values)
        string(LENGTH "${name}" length)
        math(EXPR gap "15 - ${length}")
        string(REPEAT " " ${gap} gap)
        message(STATUS "  ${name}${gap}${value}")
        list(APPEND rows "{\"${name}\", \"${value}\"}")
    endforeach()
    list(JOIN rows ", " OLE_BUILD_PARTS)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/build_parts.h.in ${header} @ONLY)
endfunction()

# The text of a file, for the inside of a C string.
function(ole_read_as_string file variable)
    file(READ ${file} text)
    string(REPLACE "\\" "\\\\" text "${text}")
    string(REPLACE "\"" "\\\"" text "${text}")
    string(REPLACE "\n" "\\n\"\n\"" text "${text}")
    set(${variable} "${text}" PARENT_SCOPE)
endfunction()
