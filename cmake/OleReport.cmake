# The room of figures and pages: its sources, added to ole_objects; the page's own files, carried inside
# the library; and cairo, for PDF and PNG, where it is. The library alone (OLE_TRAIN=OFF) does without.

find_library(CAIRO_LIBRARY NAMES cairo)
find_path(CAIRO_INCLUDE_DIR NAMES cairo-pdf.h PATH_SUFFIXES cairo)
mark_as_advanced(CAIRO_LIBRARY CAIRO_INCLUDE_DIR)
if(NOT OLE_TRAIN)
    ole_part("pdf, png plots" "off (OLE_TRAIN)")
elseif(CAIRO_LIBRARY AND CAIRO_INCLUDE_DIR)
    target_compile_definitions(ole_objects PUBLIC OLE_HAVE_CAIRO=1)
    target_include_directories(ole_objects PRIVATE ${CAIRO_INCLUDE_DIR})
    target_link_libraries(ole_objects PUBLIC ${CAIRO_LIBRARY})
    ole_part("pdf, png plots" "cairo")
else()
    ole_part("pdf, png plots" "not built (cairo not found: Debian has libcairo2-dev)")
endif()

target_sources(ole_objects PRIVATE
    src/report/axis.c
    src/report/canvas.c
    src/report/canvas_cairo.c
    src/report/canvas_svg.c
    src/report/drawing.c
    src/report/figure.c
    src/report/figure_heatmap.c
    src/report/figure_legend.c
    src/report/figure_plot.c
    src/report/page.c
    src/report/page_map.c
    src/report/page_numbers.c
    src/report/page_sprite.c
    src/report/palette.c
    src/report/picture.c
    src/report/text.c)

# The frame, style and script of pages as strings.
foreach(kind IN ITEMS html css js)
    set(file ${PROJECT_SOURCE_DIR}/src/report/page/page.${kind})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    ole_read_as_string(${file} page_${kind})
    file(READ ${file} page_${kind}_text)
endforeach()

# The Content-Security-Policy of pages names their script by its hash: no other one may run.
ole_base64_sha256("\n${page_js_text}\n" page_js_hash)
configure_file(src/report/page_files.h.in generated/report/page_files.h @ONLY)
