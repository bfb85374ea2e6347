#!/bin/sh
# parts.sh [ARCHITECTURE] - builds the static libraries that go into a wheel; runs as root in the builder's chroot.
#
# They are small builds of Debian 13's sources, with its security fixes, for the old glibc of the chroot, in /opt/parts
# (lib, include). Versions are in /opt/parts/versions.txt, licences in /opt/parts/licences. What a previous run built
# is kept.
#
# Downloads are https by mbedTLS. TIFF files may be compressed by deflate, LZW, PackBits or JPEG.
set -eu
parts=/opt/parts
flags='-g0 -fvisibility=hidden -ffile-prefix-map=/opt/sources=.'
mkdir -p $parts/lib $parts/include $parts/licences $parts/done /opt/sources
cd /opt/sources

configure() { # CMAKE_OPTION...: configures, builds and installs the source in the current folder
    cmake -G Ninja -S . -B ole-build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=$parts -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_PREFIX_PATH=$parts -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF \
        -DCMAKE_C_FLAGS="$flags" "$@"
    cmake --build ole-build
    cmake --install ole-build
}

build_zlib() { # Debian's source lacks files that its CMakeLists.txt names
    CFLAGS="-O3 -fPIC $flags" ./configure --static --prefix=$parts
    make libz.a
    cp libz.a $parts/lib/
    cp zlib.h zconf.h $parts/include/
}

build_libpng() { configure -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_TOOLS=OFF; }

build_libjpeg() { configure -DCMAKE_INSTALL_LIBDIR=$parts/lib -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF; } # not relative here

build_libwebp() {
    configure -DWEBP_BUILD_ANIM_UTILS=OFF -DWEBP_BUILD_CWEBP=OFF -DWEBP_BUILD_DWEBP=OFF -DWEBP_BUILD_GIF2WEBP=OFF \
        -DWEBP_BUILD_IMG2WEBP=OFF -DWEBP_BUILD_VWEBP=OFF -DWEBP_BUILD_WEBPINFO=OFF -DWEBP_BUILD_WEBPMUX=OFF \
        -DWEBP_BUILD_LIBWEBPMUX=OFF -DWEBP_BUILD_EXTRAS=OFF
}

build_tiff() {
    configure -Dtiff-tools=OFF -Dtiff-tests=OFF -Dtiff-contrib=OFF -Dtiff-docs=OFF -Djbig=OFF -Dlerc=OFF -Dlzma=OFF \
        -Dzstd=OFF -Dlibdeflate=OFF -Dwebp=OFF -Dcxx=OFF
}

build_jansson() { configure -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF; }

build_libyaml() { configure; }

build_mbedtls() { configure -DENABLE_PROGRAMS=OFF -DENABLE_TESTING=OFF; }

# Certificates: where Debian has them; the Python package knows where other systems do.
build_curl() {
    configure -DBUILD_CURL_EXE=OFF -DBUILD_STATIC_LIBS=ON -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=OFF -DCURL_USE_MBEDTLS=ON \
        -DCURL_USE_LIBPSL=OFF -DCURL_USE_LIBSSH2=OFF -DUSE_NGHTTP2=OFF -DUSE_LIBIDN2=OFF -DCURL_BROTLI=OFF \
        -DCURL_ZSTD=OFF -DCURL_DISABLE_INSTALL=OFF -DBUILD_LIBCURL_DOCS=OFF -DBUILD_MISC_DOCS=OFF \
        -DENABLE_CURL_MANUAL=OFF -DCURL_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt -DCURL_CA_PATH=none
}

build_libarchive() {
    configure -DENABLE_TEST=OFF -DENABLE_TAR=OFF -DENABLE_CPIO=OFF -DENABLE_CAT=OFF -DENABLE_UNZIP=OFF -DENABLE_OPENSSL=OFF \
        -DENABLE_MBEDTLS=OFF -DENABLE_NETTLE=OFF -DENABLE_LIBB2=OFF -DENABLE_LZ4=OFF -DENABLE_LZO=OFF -DENABLE_LZMA=OFF \
        -DENABLE_ZSTD=OFF -DENABLE_BZip2=OFF -DENABLE_LIBXML2=OFF -DENABLE_EXPAT=OFF -DENABLE_PCREPOSIX=OFF \
        -DENABLE_PCRE2POSIX=OFF -DENABLE_LIBGCC=OFF -DENABLE_ACL=OFF -DENABLE_XATTR=OFF -DENABLE_ICONV=OFF
}

# fetch SOURCE: unpacks its newest version that the mirror has, in the current folder, and sets `version`.
fetch() {
    for version in $(apt-cache showsrc --only-source "$1" | sed -n 's/^Version: //p' | sort -V -r -u); do
        if apt-get source -q --only-source "$1=$version"; then return; fi
        echo "==> $1 $version cannot be fetched; an older version is tried"
    done
    echo "parts.sh: no source of $1 can be fetched" >&2
    exit 1
}

# part SOURCE FUNCTION
part() {
    source=$1
    if [ ! -e "$parts/done/$source" ]; then
        rm -rf "$source"
        mkdir "$source"
        cd "$source"
        fetch "$source"
        echo "==> $source $version"
        cd ./*/
        "$2"
        cp debian/copyright "$parts/licences/$source"
        cd /opt/sources
        printf '%s %s\n' "$source" "$version" >"$parts/done/$source"
    fi
    cat "$parts/done/$source" >>$parts/versions.new
}

rm -f $parts/versions.new
part zlib build_zlib
part jansson build_jansson
part libyaml build_libyaml
part libpng1.6 build_libpng
part libjpeg-turbo build_libjpeg
part libwebp build_libwebp
part tiff build_tiff
part libarchive build_libarchive
part mbedtls build_mbedtls
part curl build_curl
mv $parts/versions.new $parts/versions.txt
rm -rf $parts/lib/cmake # CMake's own modules find the libraries; some of these need others

# OpenBLAS: the archive of Debian 12, as that of Debian 11 takes new CPUs (Zen 4) for old ones. It needs no newer glibc.
if [ ! -e $parts/lib/libopenblas.a ]; then
    mkdir -p /opt/openblas/lists/partial
    cd /opt/openblas
    sed -n 's/^deb-src \(.*\) bookworm main$/deb \1 bookworm main/p' /etc/apt/sources.list.d/newer.list >sources.list
    newer() {
        apt-get -q -o Dir::Etc::sourcelist=/opt/openblas/sources.list -o Dir::Etc::sourceparts=/dev/null \
            -o Dir::State::lists=/opt/openblas/lists "$@"
    }
    newer update
    newer download libopenblas-serial-dev
    dpkg -x libopenblas-serial-dev_*.deb .
    cp usr/share/doc/libopenblas-serial-dev/copyright $parts/licences/OpenBLAS
    cp usr/lib/*/openblas-serial/libopenblas.a $parts/lib/
fi

# oneDNN, from its own package.
from=/opt/tools
cp -P $from/lib/libdnnl.so.3* $parts/lib/
[ -e $parts/lib/libdnnl.so ] || ln -s libdnnl.so.3 $parts/lib/libdnnl.so
cp -r $from/include/oneapi $parts/include/
cp $from/share/doc/onednn/THIRD-PARTY-PROGRAMS $parts/licences/oneDNN-third-party
cp $from/share/doc/onednn/LICENSE $parts/licences/oneDNN
cp /usr/share/doc/gcc-10-base/copyright $parts/licences/libgomp
