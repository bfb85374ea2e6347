# What `cmake --install` installs: headers, libraries, program, .pc files and the CMake package.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ole)

install(FILES ${ole_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ole)
install(TARGETS ole EXPORT ole-targets)
if(OLE_STATIC)
    install(TARGETS ole_static)
endif()
if(OLE_TRAIN)
    install(FILES ${oletrain_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ole/train)
    install(TARGETS oletrain EXPORT ole-targets)
endif()
if(TARGET ole_cli)
    install(TARGETS ole_cli)
endif()

# The program writes its manual pages; one for another machine needs an emulator for that.
if(TARGET ole_cli AND (NOT CMAKE_CROSSCOMPILING OR CMAKE_CROSSCOMPILING_EMULATOR))
    set(pages ${PROJECT_BINARY_DIR}/man1)
    add_custom_command(OUTPUT ${pages}/ole.1
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
        COMMAND ole_cli man --out ${pages}
        DEPENDS ole_cli VERBATIM)
    add_custom_target(ole_manual ALL DEPENDS ${pages}/ole.1)
    install(DIRECTORY ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR})
endif()
if(TARGET ole_cli)
    install(FILES cli/completion/ole.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ole)
    install(FILES cli/completion/_ole DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES cli/completion/ole.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

# ole_installed builds all that is installed, for `./dev build`. The demo builds the program alone, without waiting for
# nvcc.
add_custom_target(ole_installed)
foreach(target IN ITEMS ole ole_static oletrain ole_cli ole_manual ole_cuda ole_mpi ole_jax)
    if(TARGET ${target})
        add_dependencies(ole_installed ${target})
    endif()
endforeach()

foreach(module IN ITEMS ole_cuda ole_mpi ole_jax)
    if(TARGET ${module})
        install(TARGETS ${module} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    endif()
endforeach()

# What libole.a needs.
get_target_property(private SerialOpenBLAS::SerialOpenBLAS IMPORTED_LOCATION)
if(OLE_STATIC_BLAS)
    string(APPEND private " -lgfortran")
endif()
if(OLE_CLI OR OLE_TRAIN)
    string(APPEND private " -lz") # for .npz files
endif()
string(APPEND private " -lpthread -lm -ldl")
string(REPLACE " " ";" static_needs "${private}")

install(EXPORT ole-targets NAMESPACE ole:: DESTINATION ${package_dir})
configure_package_config_file(cmake/ole-config.cmake.in package/ole-config.cmake
    INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(package/ole-config-version.cmake
    COMPATIBILITY SameMinorVersion)
install(FILES
    ${CMAKE_CURRENT_BINARY_DIR}/package/ole-config.cmake
    ${CMAKE_CURRENT_BINARY_DIR}/package/ole-config-version.cmake
    DESTINATION ${package_dir})

# The .pc files find their prefix from where they lie, so that the tree can be installed anywhere and moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
    file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
    string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${up}")
endif()
cmake_path(APPEND pc_includedir "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
cmake_path(APPEND pc_libdir "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
function(ole_pkg_config name description requires private)
    configure_file(cmake/library.pc.in package/${name}.pc @ONLY)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/package/${name}.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
ole_pkg_config(ole "The OLÉ loss, feature analyses and t-SNE" "" "${private}")
if(OLE_TRAIN)
    ole_pkg_config(oletrain "Networks, data sets and training with the OLÉ loss" "ole = ${PROJECT_VERSION}" "")
endif()
