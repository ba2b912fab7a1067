#!/usr/bin/env bash
# cilk5.sh FOLDER: fetch MIT Cilk-5 and build it into a folder outside of this repository (its licences are GPL and LGPL).
set -euo pipefail
to=$(realpath -m "${1:?a folder to build into}") from=https://github.com/zakkak/cilk
here=$(realpath "$(dirname "$0")/..")
case $to/ in "$here"/*) echo "$to is inside of this repository" >&2; exit 2 ;; esac
for tool in git autoreconf libtoolize make gcc; do
    command -v "$tool" >/dev/null || { echo "there is no $tool here: apt install git autoconf automake libtool make gcc" >&2; exit 2; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet --depth 1 "${CILK5_FROM:-$from}" "$work/cilk"
cd "$work/cilk"
autoreconf -fi >configure.log 2>&1 || { tail configure.log; exit 1; }
# Its grammars are in there as C too; yacc of today does not read them.
touch cilk2c/ANSI-C.c cilk2c/ANSI-C.h cilk2c/c4.c
./configure --prefix="$to" CFLAGS="-g -O2" >configure.log 2>&1 || { tail configure.log; exit 1; }
for part in cilk2c runtime support; do # its examples are not built: nine of them need a smaller math.h
    make -C $part install >make.log 2>&1 || { tail make.log; exit 1; }
done
mkdir -p "$to/lib/cilk"
cp "$to/bin/cilk2c" "$to/lib/cilk/" # where its cilkc looks
mkdir -p "$to/examples" && cp -r examples/. config.h "$to/examples/"
echo "Cilk-5 is built: export CILK_ROOT=$to"
