#!/bin/bash
# chroot.sh - bare Debian systems in folders, for the scripts that source this one: make_root creates one, inside runs a
# command in it. They take package mirror, proxies, name servers and certificates from this machine.

user=stranger
tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# ---- Making a chroot ----------------------------------------------------------------------------

# The Debian mirror that this machine installs from; empty if there is none, and debootstrap takes its own.
mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | grep -v '^#' |
        grep -oE 'https?://[^] ]+/debian/?( |$)' | tr -d ' ' | head -n 1 || true
}

# What this machine needs to reach package registries: apt's proxies and options, name servers, certificates, pip.conf.
take_over() { # ROOT
    apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|Retries|Check-Valid-Until)' \
        >"$1/etc/apt/apt.conf.d/99host" || true
    local path
    for path in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt \
        /usr/local/share/ca-certificates; do
        if [ -e "$path" ]; then
            mkdir -p "$1${path%/*}"
            cp -RL "$path" "$1${path%/*}/"
        fi
    done
}

make_root() { # SUITE ROOT
    rm -rf "$2"
    local from
    from=$(mirror)
    debootstrap --variant=minbase "$1" "$2" ${from:+"$from"}
    chroot "$2" useradd --create-home --shell /bin/sh "$user"
    take_over "$2"
}

# ---- Running commands in it -----------------------------------------------------------------

# inside ROOT USER [VARIABLE=VALUE...] COMMAND...: with an environment of these variables and those for registries.
inside() {
    local root=$1 who=$2 name environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
    shift 2
    for name in {http,https,no}_proxy {HTTP,HTTPS,NO}_PROXY PIP_CERT PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_DEFAULT_TIMEOUT \
        OLE_BIND; do
        if [ -n "${!name:-}" ]; then environment+=("$name=${!name}"); fi
    done
    env -i "${environment[@]}" "$tools/enter.sh" "$who" "$root" env "$@" </dev/null
}
