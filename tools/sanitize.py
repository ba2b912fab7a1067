"""Runs a command with kernels that AddressSanitizer and UBSan watch: what they find ends it, with the place in C.

    python tools/sanitize.py COMMAND...        as `python tools/sanitize.py .venv/bin/python -m pytest tests/match`

The package is copied into a temporary folder, and its kernels and what probes call are built there, so that nothing
here is changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from weft.native.shared import INCLUDED

ROOT: Final = Path(__file__).parents[1]
_FLAGS: Final = (
    "-std=c11", "-g", "-O1", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-pthread",
)  # fmt: skip
_OPTIONS: Final = "detect_leaks=0:allocator_may_return_null=1:handle_segv=1:abort_on_error=0"
"""Python itself gives much back only by ending. What asks for too much memory gets none, as without the sanitizer."""


def copy(folder: Path) -> dict[str, str]:
    """Put a watched copy of the package into a folder; the environment in which programs find it."""
    package = folder / "weft"
    shutil.copytree(ROOT / "src" / "weft", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    native = package / "native"
    layouts = sorted((ROOT / "build" / "bridge").glob("*.c"))
    sources = [native / "module.c", native / "record.c", *sorted(native.glob("kernel/*.c")), *layouts]
    folders = [f"-I{package / folder.relative_to(ROOT / 'src/weft')}" for folder in INCLUDED]
    command = ["cc", *_FLAGS, *folders, *map(str, sources), "-o", str(native / "_kernel.abi3.so")]
    subprocess.run(command, check=True, timeout=600)
    values = [*(package / "values" / "native").glob("*.c")]
    probes = ["cc", *_FLAGS, "-fvisibility=hidden", f"-I{package}", *map(str, values)]
    subprocess.run([*probes, "-o", str(package / "values" / "_values.abi3.so")], check=True, timeout=600)
    found = subprocess.run(
        ["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True, timeout=60
    )
    return {
        **os.environ,
        "PYTHONPATH": str(folder),
        "LD_PRELOAD": found.stdout.strip(),
        "ASAN_OPTIONS": _OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def main() -> int:
    """Run the command; its status."""
    with tempfile.TemporaryDirectory(prefix="weft-sanitize-") as folder:
        return subprocess.run(sys.argv[1:], env=copy(Path(folder)), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
