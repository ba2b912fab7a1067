#!/usr/bin/env bash
# Builds what no package index has for the tests of Cilk, into a folder outside of this repository:
#     CILK5_FROM=... OPENCILK_FROM=... bash tools/extras.sh
# each the address or path of a git repository (MIT Cilk-5: github.com/zakkak/cilk; OpenCilk's runtime:
# github.com/OpenCilk/cheetah). Without one its tests are skipped. Prints the two lines that tell the tests where it is.
set -euo pipefail
tools=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
to=${XDG_CACHE_HOME:-$HOME/.cache}/weft-extras
mkdir -p "$to"

if [ -n "${CILK5_FROM:-}" ] && [ ! -e "$to/cilk5/.made" ]; then
    rm -rf "$to/cilk5"
    bash "$tools/cilk5.sh" "$to/cilk5" >&2
    touch "$to/cilk5/.made"
fi
if [ -n "${OPENCILK_FROM:-}" ] && [ ! -e "$to/opencilk" ]; then
    clang=$(compgen -c clang | grep -xE 'clang(-[0-9]+)?' | sort -V | head -1)
    [ -n "$clang" ] || { echo "OpenCilk's runtime is compiled by clang, which is not here" >&2; exit 2; }
    rm -rf "$to/opencilk.made"
    git clone --quiet "$OPENCILK_FROM" "$to/opencilk.made"
    make -C "$to/opencilk.made/runtime" CC="$clang" CXX="${clang/clang/clang++}" >"$to/opencilk.log" 2>&1 ||
        { tail "$to/opencilk.log" >&2; exit 1; }
    mv "$to/opencilk.made" "$to/opencilk"
fi
if [ -e "$to/cilk5/.made" ]; then echo "CILK_ROOT=$to/cilk5"; else echo "without CILK5_FROM the tests of Cilk-5 are skipped" >&2; fi
if [ -e "$to/opencilk" ]; then echo "OPENCILK_ROOT=$to/opencilk"; else echo "without OPENCILK_FROM the tests of OpenCilk are skipped" >&2; fi
