#!/bin/sh
# enter.sh USER ROOT COMMAND... - runs COMMAND as USER chrooted into ROOT, with the file systems that programs expect.
#
# Needs root. Mounts and processes get namespaces of their own, so that nothing stays mounted or running however this
# ends. Provides /proc, /sys (read-only: hwloc reads the CPUs there), and /dev with a terminal and shared memory. The folder
# OLE_BIND, if it is set, is seen there too, read-only.
set -eu

if [ "$1" != --inside ]; then
    exec unshare --mount --pid --fork --kill-child "$0" --inside "$@"
fi
user=$2 root=$3
shift 3

mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero full random urandom tty; do
    : >"$root/dev/$node"
    mount --bind "/dev/$node" "$root/dev/$node"
done
if [ -n "${OLE_BIND:-}" ]; then
    mkdir -p "$root$OLE_BIND"
    mount --bind "$OLE_BIND" "$root$OLE_BIND"
    mount -o remount,bind,ro "$root$OLE_BIND"
fi
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
exec chroot --userspec="$user" "$root" "$@"
