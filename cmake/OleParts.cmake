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

# The SHA-256 of a text, in base64: three bytes, six hexadecimal digits, are four digits of 64.
function(ole_base64_sha256 text variable)
    set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    string(SHA256 hash "${text}")
    string(APPEND hash "00") # 33 bytes instead of 32, for whole groups
    set(result)
    foreach(at RANGE 0 60 6)
        string(SUBSTRING "${hash}" ${at} 6 part)
        foreach(shift IN ITEMS 18 12 6 0)
            math(EXPR digit "(0x${part} >> ${shift}) & 63")
            string(SUBSTRING "${digits}" ${digit} 1 digit)
            string(APPEND result "${digit}")
        endforeach()
    endforeach()
    string(SUBSTRING "${result}" 0 43 result)
    set(${variable} "${result}=" PARENT_SCOPE)
endfunction()
