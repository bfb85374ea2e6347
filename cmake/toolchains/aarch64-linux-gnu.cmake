# Cross-builds for 64-bit ARM Linux with the compiler that Debian and Ubuntu call
# gcc-aarch64-linux-gnu; ctest runs the tests through qemu-user where it is installed.
#
#   cmake -B build-arm64 -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/aarch64-linux-gnu.cmake -DOLE_TRAIN=OFF
#
# The libraries come from the :arm64 packages of the same system (dpkg --add-architecture arm64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

find_program(OLE_QEMU_AARCH64 NAMES qemu-aarch64-static qemu-aarch64)
mark_as_advanced(OLE_QEMU_AARCH64)
if(OLE_QEMU_AARCH64)
    set(CMAKE_CROSSCOMPILING_EMULATOR ${OLE_QEMU_AARCH64})
endif()
