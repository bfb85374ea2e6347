#!/bin/sh
# install.sh install BUILD PREFIX - installs a build under PREFIX and lists the files, relative to it, in
#                                 PREFIX/share/ole/installed.txt, so that the folder may be moved.
# install.sh uninstall PREFIX    - removes the files in that list, and the folders that are empty then.
#
# DESTDIR, if set, goes in front of PREFIX (a staged install). sudo is used only if the folder belongs to somebody else.
set -eu

die() {
    printf './dev: %s\n' "$*" >&2
    exit 1
}

# in_prefix COMMAND...: runs it, as root if the prefix is not ours to write.
in_prefix() {
    if [ "$(id -u)" -eq 0 ] || { mkdir -p "${DESTDIR:-}$prefix" 2>/dev/null && [ -w "${DESTDIR:-}$prefix" ]; }; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo env DESTDIR="${DESTDIR:-}" "$@"
    else
        die "${DESTDIR:-}$prefix: cannot write there; run as root, or choose another prefix"
    fi
}

# The folders of a system's own prefix are in the loader's cache.
refresh_loader() {
    case ${DESTDIR:-}$prefix in
    /usr | /usr/local) in_prefix ldconfig ;;
    esac
}

set_prefix() {
    case $1 in
    /*) prefix=$1 ;;
    *) prefix=$PWD/$1 ;;
    esac
    list=$prefix/share/ole/installed.txt
}

command=$1
case $command in
install)
    build=$2
    set_prefix "$3"
    in_prefix cmake --install "$build" --prefix "$prefix"
    in_prefix mkdir -p "${DESTDIR:-}${list%/*}"
    { cat "$build/install_manifest.txt" && printf '\n%s\n' "$list"; } | sed "s|^$prefix/||" |
        in_prefix tee "${DESTDIR:-}$list" >/dev/null
    refresh_loader
    ;;
uninstall)
    set_prefix "$2"
    [ -e "${DESTDIR:-}$list" ] || die "${DESTDIR:-}$list: not found; './dev install' has installed nothing there"
    # The list is a file like any other: what leads out of the prefix is not ours to remove.
    files=$(grep -vE '^/|^$|(^|/)\.\.(/|$)' "${DESTDIR:-}$list")
    echo "$files" | while read -r file; do in_prefix rm -f "${DESTDIR:-}$prefix/$file"; done
    echo "$files" | while read -r file; do
        folder=${file%/*}
        while [ "$folder" != "$file" ] && in_prefix rmdir "${DESTDIR:-}$prefix/$folder" 2>/dev/null; do
            file=$folder
            folder=${folder%/*}
        done
    done
    refresh_loader
    printf '==> removed from %s\n' "${DESTDIR:-}$prefix"
    ;;
esac
