"""Builds the wheel that needs no compiler: with the recorders for the MPIs of the given environments, and the kernel.

    python tools/wheel.py DIST VENV...

Each VENV has one of PyPI's MPIs and its mpicc. The wheel fits every Python from 3.11 on; auditwheel, where it is
installed, gives it the manylinux tag that its symbols allow.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from weft.mpi import ready, shim


def pack(venv: Path) -> None:
    """Build the recorder of one environment's MPI and put it where the wheel takes it from."""
    mpicc = str(venv.absolute() / "bin" / "mpicc")
    made = shim.build(mpicc)
    library = shim.probe(mpicc).path
    name = f"{made.soname}-{ready.digest([library])[:12]}"
    print(f"packed the recorder for {made.soname} in {ready.pack(library, made, name).name}")


def wheel(target: Path) -> Path:
    """Build the wheel into `target`, under the widest tag that it allows; return its path."""
    target.mkdir(parents=True, exist_ok=True)
    raw = target / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        ".",
        "-w",
        str(raw),
    ]
    subprocess.run(command, check=True, timeout=600)
    (built,) = raw.glob("weft_debugger-*.whl")
    if shutil.which("auditwheel") and shutil.which("patchelf"):
        subprocess.run(["auditwheel", "repair", str(built), "-w", str(target)], check=True, timeout=300)
    else:
        shutil.copy(built, target)
    shutil.rmtree(raw)
    return max(target.glob("weft_debugger-*.whl"), key=lambda path: path.stat().st_mtime)


def main() -> None:
    """Pack the recorders, then build; what was packed is taken away again."""
    target, venvs = Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]]
    shutil.rmtree(ready.folder_of_wheel(), ignore_errors=True)
    try:
        for venv in venvs:
            pack(venv)
        print(wheel(target))
    finally:
        shutil.rmtree(ready.folder_of_wheel(), ignore_errors=True)


if __name__ == "__main__":
    main()
