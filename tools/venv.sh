#!/usr/bin/env bash
# Makes a virtual environment at $1, also where Debian's Python comes without ensurepip.
set -euo pipefail
target=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "weft needs Python 3.11 or newer, $python is $("$python" --version 2>&1): set PYTHON=..." >&2
    exit 1
}
has() { "$python" -c "import $1" 2>/dev/null; }

if ! has ensurepip && ! has pip && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
fi
if has ensurepip; then
    "$python" -m venv "$target"
elif has pip; then
    "$python" -m venv --without-pip "$target"
    "$python" -m pip --quiet --python "$target/bin/python" install pip
else
    echo "this Python can make no virtual environment: install its venv package (Debian: apt install python3-venv)" >&2
    exit 1
fi
