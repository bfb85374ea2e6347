#!/bin/sh
# bench/hosts.sh - runs a program with one rank on each of N hosts. The hosts are network namespaces of
# this machine, connected by a switch with a given rate and delay:
#
#     bench/hosts.sh 2 1gbit 50us -- build/ole bench --ranks --net cnn5
#
# RATE is what each host can send and, independently, receive (in tc's notation). DELAY is added in each
# direction if the kernel has netem; 0 for none.  Each host has its own name and one processor, assigned
# in turn.  Needs root, iproute2, util-linux and Open MPI.  The machine's own network is not touched:
# bridge, links and private addresses live in the namespaces, which are removed at the end.
set -eu

fail() {
    echo "bench/hosts.sh: $*" >&2
    exit 77
}

if [ $# -lt 5 ] || [ "$4" != -- ]; then
    fail "usage: bench/hosts.sh N RATE DELAY -- PROGRAM ARGUMENTS..."
fi
hosts=$1 rate=$2 delay=$3
shift 4
for tool in ip tc unshare taskset mpirun; do
    command -v "$tool" >/dev/null || fail "$tool is missing"
done
[ "$(id -u)" = 0 ] || fail "network namespaces need root"

prefix=ole$$
processors=$(nproc)
work=$(mktemp -d)
job=

# shellcheck disable=SC2317,SC2329 # the trap calls it
clean() {
    trap '' EXIT HUP INT TERM
    if [ -n "$job" ]; then
        kill "$job" 2>/dev/null || true
        wait "$job" || true
    fi
    host=0
    while [ "$host" -le "$hosts" ]; do
        ip netns delete "$prefix-$host" 2>/dev/null || true
        host=$((host + 1))
    done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' HUP INT TERM

# ---- The switch is namespace 0, the hosts are 1 to N -------------------------------------------------

ip netns add "$prefix-0" 2>/dev/null || fail "this machine does not allow network namespaces"
ip -n "$prefix-0" link add bridge type bridge 2>/dev/null || fail "the kernel has no bridges"
ip -n "$prefix-0" link set bridge up

# shape NAMESPACE LINK: what leaves by the link.
shape() {
    if [ "$delay" != 0 ]; then
        tc -n "$1" qdisc add dev "$2" root netem rate "$rate" delay "$delay" 2>/dev/null && return
        echo "bench/hosts.sh: the kernel has no netem: the rate is as requested, without the delay" \
            >"$work/warning"
    fi
    tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 256kb latency 50ms
}

host=1
while [ "$host" -le "$hosts" ]; do
    ip netns add "$prefix-$host"
    ip link add name eth0 netns "$prefix-$host" type veth peer name "port$host" netns "$prefix-0"
    ip -n "$prefix-0" link set "port$host" master bridge up
    ip -n "$prefix-$host" address add "10.77.0.$host/24" dev eth0
    ip -n "$prefix-$host" link set lo up
    ip -n "$prefix-$host" link set eth0 up
    shape "$prefix-$host" eth0
    shape "$prefix-0" "port$host"
    host=$((host + 1))
done
if [ -e "$work/warning" ]; then cat "$work/warning" >&2; fi

# ---- Running on them ---------------------------------------------------------------------------------

# on ADDRESS COMMAND: as ssh would.
cat >"$work/on" <<END
#!/bin/sh
host=\${1##*.}
shift
processor=\$(((host - 1) % $processors))
exec ip netns exec "$prefix-\$host" unshare --uts \\
    sh -c "hostname host\$host && exec taskset -c \$processor \$*"
END
chmod +x "$work/on"

addresses=10.77.0.1
host=2
while [ "$host" -le "$hosts" ]; do
    addresses=$addresses,10.77.0.$host
    host=$((host + 1))
done

words=
for word in "$@"; do
    words="$words '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done
"$work/on" 10.77.0.1 env OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OMPI_MCA_rmaps_base_oversubscribe=1 \
    mpirun --allow-run-as-root -n "$hosts" --host "$addresses" --bind-to none \
    --mca plm rsh --mca plm_rsh_agent "$work/on" --mca btl tcp,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 \
    -x OMP_NUM_THREADS -x OMP_WAIT_POLICY "$words" &
job=$!
code=0
wait "$job" || code=$?
job=
exit "$code"
