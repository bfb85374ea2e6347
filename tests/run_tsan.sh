#!/bin/sh
# run_tsan.sh PROGRAM - runs a program built with ThreadSanitizer, which up to gcc 13 and clang 17 needs addresses that
# are not spread too widely: without randomisation, or, where that may not be switched off, with 28 bits of it.
if setarch -R true 2>/dev/null; then
    exec setarch -R "$@"
fi
if [ "$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28)" -gt 28 ]; then
    echo "skipped: setarch -R is not permitted, and vm.mmap_rnd_bits is above 28"
    exit 77
fi
exec "$@"
