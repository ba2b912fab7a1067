#!/usr/bin/env bash
# Installs the Debian packages that the tests use, when some are missing and we may.
set -euo pipefail
packages=(gcc g++ gfortran mpich libmpich-dev openmpi-bin libopenmpi-dev valgrind gdb binutils otf2-tools chromium
    chromium-driver clang-14 libomp-14-dev zsh fish groff slurm-wlm munge
    autoconf automake libtool pvm pvm-dev fuse3 libfuse3-dev pkg-config)
# clang: untied tasks that migrate, and a runtime with OMPT; autoconf, automake, libtool: tools/cilk5.sh; pvm: tests/pvm
# fuse3, libfuse3-dev, pkg-config: a slow disk, tests/launch/test_slow_disk.py

command -v dpkg-query >/dev/null || exit 0
missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [[ $status == "install ok installed" ]] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "not installed, the tests that need them are skipped: ${missing[*]}" >&2
    exit 0
fi
echo "installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
