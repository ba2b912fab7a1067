#!/usr/bin/env bash
# Runs a command in a root of another Debian, on a clone of this checkout's last commit (for root only):
#     tools/systems.sh trixie 'make demo'
#     tools/systems.sh --check        says why that cannot be here, and fails; or says nothing
#     tools/systems.sh --root trixie  says where that root lies
#     tools/systems.sh trixie-arm64 'make test ROOMS=tests/trace'     for another processor, emulated by qemu-user-static
# The root is made by debootstrap on first use, in ${XDG_CACHE_HOME:-~/.cache}/weft-roots, and kept with what was
# installed into it: packages, pip's wheels, the clone's environments (about 4 GB once the tests have run). The command
# has process and mount namespaces of its own: what it starts ends with it, and nothing stays mounted.
set -euo pipefail
tools=$(realpath "$(dirname "${BASH_SOURCE[0]}")")

export DEBIAN_FRONTEND=noninteractive # nothing that is installed asks anybody

why_not() {
    if [ "$(id -u)" != 0 ]; then echo "that takes root"
    elif ! unshare --mount --pid --fork true 2>/dev/null; then echo "this machine lets nobody make namespaces"
    elif ! command -v debootstrap >/dev/null &&
        ! { apt-get update -qq && apt-get install -y -qq -o DPkg::Lock::Timeout=300 debootstrap; } >/dev/null 2>&1; then
        echo "there is no debootstrap, and it cannot be installed"
    elif [ -z "$(bash "$tools/mirror.sh")" ]; then echo "apt's sources name no mirror of Debian"
    fi
}
refusal=$(why_not)
if [ -n "$refusal" ]; then
    echo "no root of another Debian can be made here: $refusal" >&2
    exit 1
fi
if [ "${1:-}" = --check ]; then exit 0; fi

roots=${XDG_CACHE_HOME:-$HOME/.cache}/weft-roots
if [ "${1:-}" = --root ]; then
    echo "$roots/${2:?a suite of Debian}"
    exit 0
fi
suite=${1:?a suite of Debian} command=${2:?a command}
here=$(git -C "$tools" rev-parse --show-toplevel)
root=$roots/$suite
mkdir -p "$roots"
exec 8>"$root.lock"
flock 8 # one command at a time: they share a clone
if [ ! -e "$root" ]; then
    echo "making a root of Debian $suite in $root" >&2
    rm -rf "$root.made"
    packages=python3,python3-venv,python3-dev,make,gcc,g++,git,ca-certificates
    foreign=()
    if [[ $suite == *-* ]]; then
        foreign=(--arch "${suite#*-}")
        if [ "${suite#*-}" != "$(dpkg --print-architecture)" ] && ! command -v qemu-aarch64-static >/dev/null; then
            apt-get install -y -qq -o DPkg::Lock::Timeout=300 qemu-user-static binfmt-support >/dev/null 2>&1 || true
        fi
        # The kernel starts the emulator; debootstrap ends with an error where it does not.
        mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc || true
    fi
    script=() # of a suite that is newer than this debootstrap: sid's
    if [ ! -e "/usr/share/debootstrap/scripts/${suite%-*}" ]; then script=(/usr/share/debootstrap/scripts/sid); fi
    debootstrap --variant=minbase --include=$packages "${foreign[@]}" "${suite%-*}" "$root.made" "$(bash "$tools/mirror.sh")" \
        "${script[@]}" >"$root.log" 2>&1 || { tail -5 "$root.log" >&2; exit 1; }
    mv "$root.made" "$root"
fi

# What reaches the registries: names, certificates, proxies, pip's settings but those that name files of this machine.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"; fi
{
    apt-config dump --format '%f "%v";%n' Acquire | grep -i '::proxy' || true
    echo 'Acquire::Check-Valid-Until "false";' # a mirror that lags behind will do
} >"$root/etc/apt/apt.conf.d/90weft"
{
    echo "[global]"
    python3 -m pip config list 2>/dev/null | sed -n "s/^\(global\|:env:\)\.\([a-z-]*\)='\(.*\)'$/\2 = \3/p" |
        while read -r name is value; do # one of the environment comes before a file's
            if [[ $value == *file:* || ($value == /* && ! -e $root$value) || " ${names:-} " == *" $name "* ]]; then continue; fi
            names="${names:-} $name"
            echo "$name $is $value"
        done
} >"$root/etc/pip.conf"
environment=(HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
while IFS= read -r line; do environment+=("$line"); done < <(env | grep -iE '^(https?|no|all)_proxy=' || true)

clone=$root/root/weft
git init -q "$clone"
git -C "$clone" fetch -q --update-shallow "$here" HEAD
git -C "$clone" checkout -q -f FETCH_HEAD
git -C "$clone" clean -fdq # not what is ignored: environments and what was built are kept
find "$root/tmp" -mindepth 1 -delete
chmod 755 "$root/root" # tests have a second user, who reads Weft's files there

exec unshare --mount --propagation private --pid --fork --kill-child bash -c '
    root=$1
    shift
    mount --bind "$root" "$root" || exit # so that its / is a mount, which unshare asks for
    mount -t proc proc "$root/proc" && mount --rbind /sys "$root/sys" && mount --rbind /dev "$root/dev" || exit
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || exit
    chroot "$root" env -i "$@"
    exit $? # so that this shell stays and reaps
    ' - "$root" "${environment[@]}" bash -c "cd /root/weft && $command" 8>&-
