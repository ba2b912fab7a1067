#!/usr/bin/env bash
# The lines that tests run: bash tools/coverage.sh .venv/bin tests/races ...  Python by coverage.py, the kernels by gcov.
# Recorded programs are processes of their own and are counted; the recorder, which the user's mpicc compiles, is not.
set -euo pipefail
bin=$1; shift
out=build/coverage
rm -rf "$out"; mkdir -p "$out"
objects=$out/objects
export COVERAGE_FILE=$PWD/$out/data COVERAGE_RCFILE=$PWD/pyproject.toml OMP_NUM_THREADS=1
CFLAGS=--coverage LDFLAGS=--coverage "$bin/python" setup.py --quiet build_ext --inplace --force --build-temp "$objects"
trap '"$bin/python" setup.py --quiet build_ext --inplace --force' EXIT
"$bin/coverage" run -m pytest -q -p no:xdist -m "not matrix" --timeout 1200 --timeout-method signal "$@" || echo "some tests failed; counted is what ran"
"$bin/coverage" combine --quiet
"$bin/coverage" html --quiet -d "$out/python"
"$bin/coverage" report --format=total | sed 's/^/Python, % of the lines: /'
"$bin/gcovr" --root . --object-directory "$objects" --filter src/weft/native "$objects" --txt "$out/native.txt" --print-summary \
  | grep lines | sed 's/^lines/C kernels, lines/'
