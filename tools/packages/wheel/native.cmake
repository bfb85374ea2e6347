# What CMake starts from when a wheel is built in the chroot (build.sh): clang, which knows AMX where Debian 11's gcc does
# not, and the static libraries of parts.sh. They need each other, so they are named once more at the end of each link.
set(CMAKE_C_COMPILER clang-16 CACHE STRING "")
set(SerialOpenBLAS_STATIC_LIBRARY /opt/parts/lib/libopenblas.a CACHE STRING "")
set(CURL_NO_CURL_CMAKE ON CACHE BOOL "")
set(CMAKE_C_STANDARD_LIBRARIES "/opt/parts/lib/libtiff.a /opt/parts/lib/libjpeg.a /opt/parts/lib/libmbedtls.a \
/opt/parts/lib/libmbedx509.a /opt/parts/lib/libmbedcrypto.a /opt/parts/lib/libz.a -lpthread -lm" CACHE STRING "")
set(OLE_WHEEL_LICENSES /opt/parts/licences CACHE STRING "")
set(OLE_CUDA OFF CACHE BOOL "")
set(OLE_TRAIN ON CACHE BOOL "")
