#!/bin/bash
# run.sh [--all] [--keep] [debian12|debian13|sid|arm64 ...] - runs the README's two commands on bare systems.
#
# Each Debian is a fresh minimal chroot (debootstrap) with a clone of HEAD in it, in the folder OLE_PLATFORMS
# (build/platforms). `./dev demo` and `./dev test` run there twice, as a newcomer would run them: first as root without
# HOME in the C locale, which installs the packages; then as an ordinary user with HOME and a UTF-8 locale. Where the
# system's Python packages are newer than Debian 12's, root also runs the tests of PyTorch, torch.compile, types and JAX,
# of which nothing may be skipped there. arm64.sh does arm64.
#
#   --all     run `./dev test --all` instead of `./dev test`
#   --keep    reuse the chroots of the last run, with their packages
#
# The chroots take package mirror, proxies, name servers and certificates from this machine. Logs and the table stay in
# the folder. The exit status is 1 if a command failed; failures on sid, which changes daily, are only reported. The
# default is debian12 and debian13.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/tools/platforms
. tools/platforms/chroot.sh
base=${OLE_PLATFORMS:-build/platforms}
test=(./dev test)
keep=no
failed=no

say() { printf '==> %s\n' "$*"; }

die() {
    printf './dev platforms: %s\n' "$*" >&2
    exit 1
}

# ---- Running the commands ------------------------------------------------------------------------

package_version() { # ROOT PACKAGE
    # shellcheck disable=SC2016 # dpkg-query's variable
    chroot "$1" dpkg-query --show --showformat '${Version}' "$2" 2>/dev/null || printf 'none'
}

row() { # PLATFORM USER COMMAND RESULT MINUTES COMPILER MPI PYTORCH
    printf '| %s ' "$@" >>"$base/table.md"
    printf '|\n' >>"$base/table.md"
}

# try PLATFORM WHO LOG COMMAND...: runs the command and reports whether it passed.
try() {
    local platform=$1 who=$2 log=$3
    shift 3
    say "$platform, $who: $log"
    local start=$SECONDS result=passed
    "$@" >"$log" 2>&1 || result=failed
    minutes=$(awk "BEGIN {printf \"%.1f\", ($SECONDS - $start) / 60}")
    outcome=$result
    say "$platform, $who: $result after $minutes minutes"
    if [ "$result" = failed ]; then
        tail -n 25 "$log"
        [ "$platform" = sid ] || failed=yes
    fi
}

# What only a current PyTorch has: Debian 12's lacks torch.compile, vmap and the types that mypy reads (python.score).
current_python="./dev test python.torch_compile python.torch python.score python.jax"

run_debian() { # PLATFORM SUITE
    local folder=$base/$1 root=$base/$1/root who home command commands outcome=none minutes=0
    mkdir -p "$folder"
    if [ $keep = no ] || [ ! -e "$folder/made" ]; then
        rm -f "$folder/made"
        try "$1" bare "$folder/debootstrap.log" make_root "$2" "$root"
        if [ "$outcome" = failed ]; then
            row "$1" - debootstrap failed "$minutes" - - -
            return
        fi
        touch "$folder/made"
    fi
    for who in root "$user"; do
        home=/home/$who
        variables=("HOME=$home" LANG=C.UTF-8)
        if [ "$who" = root ]; then
            home=/root
            variables=(LC_ALL=C)
        fi
        rm -rf "$root$home/ole"
        git clone --quiet --no-hardlinks . "$root$home/ole"
        chroot "$root" chown -R "$who:" "$home/ole"
        commands=("./dev demo" "${test[*]}")
        if [ "$who" = root ] && [ "$1" != debian12 ] && [ "${test[*]}" = "./dev test" ]; then
            commands+=("$current_python")
        fi
        for command in "${commands[@]}"; do
            rm -rf "${root:?}"/tmp/* # process ids restart at 1, and names of temporary files with them
            try "$1" "$who" "$folder/$who-${command//[^a-z]/}.log" run_command "$command"
            row "$1" "$who" "\`$command\`" "$outcome" "$minutes" "gcc $(chroot "$root" gcc -dumpfullversion || echo none)" \
                "Open MPI $(package_version "$root" openmpi-bin)" "$(package_version "$root" python3-torch)"
        done
    done
}

# run_command COMMAND: with the variables of run_debian(). What a test of $current_python skips is a failure.
run_command() {
    inside "$root" "$who" "${variables[@]}" sh -c "cd $home/ole && $1" || return 1
    if [ "$1" = "$current_python" ]; then
        if grep -q 'The following tests did not run' "$folder/$who-${1//[^a-z]/}.log"; then return 1; fi
        if grep -F '... skipped' "$root$home/ole/build/Testing/Temporary/LastTest.log"; then return 1; fi
    fi
}

run_arm64() {
    local outcome=none minutes=0
    mkdir -p "$base/arm64"
    try arm64 root "$base/arm64/arm64.log" "$here/arm64.sh" "$base"
    row arm64 root "\`tools/platforms/arm64.sh\`" "$outcome" "$minutes" - - -
}

# ---- Arguments ----------------------------------------------------------------------------------

platforms=()
while [ $# -gt 0 ]; do
    case $1 in
    --all) test+=(--all) ;;
    --keep) keep=yes ;;
    debian12 | debian13 | sid | arm64) platforms+=("$1") ;;
    *) die "unknown platform or option: $1; choose debian12, debian13, sid, arm64, --all or --keep" ;;
    esac
    shift
done
[ ${#platforms[@]} -gt 0 ] || platforms=(debian12 debian13)
mkdir -p "$base"
base=$(cd "$base" && pwd)
printf '%s\n' "$(git rev-parse --short HEAD) on $(date +%F), $(nproc) cores" '' \
    '| platform | user | command | result | minutes | compiler | MPI | PyTorch |' \
    '|---|---|---|---|---|---|---|---|' >"$base/table.md"
for platform in "${platforms[@]}"; do
    case $platform in
    debian12) run_debian debian12 bookworm ;;
    debian13) run_debian debian13 trixie ;;
    sid) run_debian sid sid ;;
    arm64) run_arm64 ;;
    esac
done
cat "$base/table.md"
[ $failed = no ]
