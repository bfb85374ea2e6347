#!/bin/sh
# test_arm64.sh - the program in the wheel for 64-bit ARM computes what the one for x86-64 does; in the builder's chroot, under
# qemu, after build.sh has built both.
set -eu
cd /build/arm64
rm -rf emulated
mkdir -p emulated/program
/opt/tools/bin/python3 -m zipfile -e wheels/ole-*aarch64.whl emulated
/opt/tools/bin/python3 -m zipfile -e ../native/wheels/ole-*x86_64.whl emulated/native
chmod +x emulated/ole/bin/ole emulated/native/ole/bin/ole
printf '#!/bin/sh\nexec qemu-aarch64-static /build/arm64/emulated/ole/bin/ole "$@"\n' >emulated/program/ole
chmod +x emulated/program/ole
emulated/program/ole info
python3 source/tools/platforms/same_numbers.py emulated/native/ole/bin/ole emulated/program/ole
