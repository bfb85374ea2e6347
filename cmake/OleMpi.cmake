# libole_mpi.so: ranks as processes of an MPI launch, a module that libole.so loads when a launcher started it
# (src/ranks/mpi.h). Built where MPI 3 is installed.

option(OLE_MPI "Build the MPI module where MPI is found" ON)

if(NOT OLE_MPI)
    ole_part("MPI" "off (OLE_MPI)")
    return()
endif()
find_package(MPI 3.0 QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
    ole_part("MPI" "not built (MPI 3 not found: Debian has libopenmpi-dev)")
    return()
endif()

add_library(ole_mpi MODULE
    ranks/mpi/mpi.c
    ranks/mpi/start.c
    ranks/mpi/watch.c
    ranks/mpi/wire.c)
set_target_properties(ole_mpi PROPERTIES
    PREFIX lib LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR} INSTALL_RPATH "$ORIGIN")
target_include_directories(ole_mpi PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(ole_mpi PRIVATE ole ole_flags MPI::MPI_C)
ole_part("MPI" "built for MPI ${MPI_C_VERSION}")
