#!/usr/bin/env bash
# Installs the Debian packages that the tests use, and those named as arguments, when some are missing and we may. What the distribution lacks is
# left out, with its name: the tests that need it are skipped.
set -euo pipefail
wanted=(gcc g++ gfortran mpich libmpich-dev openmpi-bin libopenmpi-dev valgrind gdb binutils otf2-tools chromium
    chromium-driver zsh fish groff slurm-wlm munge nodejs xz-utils iproute2
    autoconf automake libtool fuse3 libfuse3-dev pkg-config "$@")
# autoconf, automake, libtool: tools/cilk5.sh; fuse3, libfuse3-dev, pkg-config: a slow disk, tests/launch/test_slow_disk.py
pvm=(pvm pvm-dev) # tests/pvm

command -v dpkg-query >/dev/null || exit 0

is_installed() { [[ $(dpkg-query -W -f '${Status}' "$1" 2>/dev/null) == "install ok installed" ]]; }
is_offered() { [[ $(apt-cache policy "$1" 2>/dev/null) == *"Candidate: "[!\(]* ]]; }
all() { # all TEST PACKAGE...: whether the test holds for each
    local test=$1 package
    shift
    for package; do "$test" "$package" || return; done
}

# A clang with the OpenMP runtime of its own release: untied tasks that migrate, and a runtime with OMPT.
clangs() { # clangs COMMAND...: the releases among the names that it prints, newest first
    "$@" 2>/dev/null | sed -n 's/^libomp-\([0-9]\+\)-dev\b.*/\1/p' | sort -rnu
}
clang_here() {
    local release
    for release in $(clangs dpkg-query -W -f '${Package}\n' 'libomp-*-dev'); do
        if all is_installed "clang-$release" "libomp-$release-dev"; then return; fi
    done
    all is_installed clang libomp-dev
}
clang_wanted() {
    local release
    if all is_offered clang libomp-dev; then
        echo clang libomp-dev
        return
    fi
    for release in $(clangs apt-cache pkgnames libomp-); do
        if all is_offered "clang-$release" "libomp-$release-dev"; then
            echo "clang-$release" "libomp-$release-dev"
            return
        fi
    done
    echo clang libomp-dev
}

# PVM left Debian after release 12, whose packages still fit: they are fetched from there by apt itself, from the mirror
# that this machine uses, with settings of their own, so that the machine's sources stay as they are.
PVM_SUITE=bookworm
install_older_pvm() {
    local folder keys=/usr/share/keyrings/debian-archive-keyring mirror
    mirror=$(bash "$(dirname "${BASH_SOURCE[0]}")/mirror.sh")
    [ -n "$mirror" ] || return
    keys=$(ls "$keys.gpg" "$keys.pgp" 2>/dev/null | head -1)
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' RETURN
    chmod 755 "$folder" # apt fetches as a user of its own
    mkdir -p "$folder/lists/partial" "$folder/archives/partial"
    echo "deb [signed-by=$keys] $mirror $PVM_SUITE main" >"$folder/sources.list"
    local own=(-qq -o "Dir::Etc::SourceList=$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$folder/lists" -o "Dir::Cache=$folder" -o APT::Sandbox::User=root)
    local packages=(libpvm3 rsh-client "${pvm[@]}") # what they need and later releases do not have, too
    (cd "$folder" && apt-get "${own[@]}" update && apt-get "${own[@]}" download "${packages[@]}") &&
        apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "$folder"/*.deb >/dev/null
}

missing=()
for package in "${wanted[@]}"; do is_installed "$package" || missing+=("$package"); done
clang_here || missing+=("clang and its libomp")
for package in "${pvm[@]}"; do is_installed "$package" || missing+=("$package"); done
[ ${#missing[@]} -eq 0 ] && exit 0

say_skipped() { # say_skipped WHY PACKAGE...
    local names
    names=$(printf ', %s' "${@:2}")
    echo "not installed ($1), the tests that need them are skipped: ${names:2}" >&2
}
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say_skipped "that takes root" "${missing[@]}"
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "apt-get update failed: what it knew before is used" >&2

offered=() lacking=() older=
for package in "${missing[@]}"; do
    if [ "$package" = "clang and its libomp" ]; then
        read -ra clang < <(clang_wanted)
        if all is_offered "${clang[@]}"; then offered+=("${clang[@]}"); else lacking+=("$package"); fi
    elif is_offered "$package"; then offered+=("$package")
    elif [[ " ${pvm[*]} " == *" $package "* ]]; then older=yes
    else lacking+=("$package"); fi
done
take() { apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "$@" >/dev/null; }
if [ ${#offered[@]} -gt 0 ]; then
    echo "installing ${offered[*]}"
    # At once; where that fails one by one, so that a single broken package costs no other.
    take "${offered[@]}" || for package in "${offered[@]}"; do
        take "$package" || lacking+=("$package")
    done
fi
if [ -n "$older" ]; then
    echo "installing ${pvm[*]} of Debian's $PVM_SUITE"
    install_older_pvm || lacking+=("${pvm[@]}")
fi
[ ${#lacking[@]} -eq 0 ] || say_skipped "this distribution lacks them" "${lacking[@]}"
