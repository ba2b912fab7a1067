#!/usr/bin/env bash
# Makes a virtual environment with pip and setuptools at $1, also where Debian's Python comes without ensurepip.
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
setuptools='setuptools>=77'
# The pip that comes with Python, as a wheel. venv would compile all of it to bytecode, which takes longer than the demo.
wheel=$("$python" - 2>/dev/null <<'END'
import ensurepip, pathlib, sysconfig
folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), pathlib.Path(ensurepip.__file__).parent / "_bundled"]
print(next(wheel for folder in folders if folder for wheel in sorted(pathlib.Path(folder).glob("pip-*.whl"))))
END
) || wheel=
flags="--quiet --disable-pip-version-check"
if [ "$wheel" ]; then
    "$python" -m venv --without-pip "$target"
    "$target/bin/python" "$wheel/pip" $flags install --no-compile "$wheel" "$setuptools"
elif has ensurepip; then
    "$python" -m venv "$target"
    "$target/bin/python" -m pip $flags install "$setuptools"
elif has pip; then
    "$python" -m venv --without-pip "$target"
    "$python" -m pip $flags --python "$target/bin/python" install pip "$setuptools"
else
    echo "this Python can make no virtual environment: install its venv package (Debian: apt install python3-venv)" >&2
    exit 1
fi
