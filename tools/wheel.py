"""Builds what is published: a wheel with the kernels, one with recorders too for the MPIs of the environments given.

    python tools/wheel.py DIST VENV...

Each VENV has one of PyPI's MPIs and its mpicc. Both wheels fit every Python from 3.11 on. auditwheel (with patchelf)
gives each the manylinux tag that its symbols allow; without it the tag stays linux_x86_64, which PyPI refuses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from weft.base.cache import digest_files
from weft.mpi import prebuilt, shim


def pack(venv: Path) -> None:
    """Build the recorder of one environment's MPI and put it where the wheel takes it from."""
    mpicc = str(venv.absolute() / "bin" / "mpicc")
    made = shim.build_shim(mpicc)
    library = shim.probe_library(mpicc).path
    name = f"{made.soname}-{digest_files([library])[:12]}"
    print(f"packed the recorder for {made.soname} in {prebuilt.add_to_wheel(library, made, name).name}")


def wheel(target: Path) -> Path:
    """Build a wheel of what is there into `target`, under the widest tag that it allows; return its path."""
    target.mkdir(parents=True, exist_ok=True)
    raw = target / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    # setuptools copies into build/lib and never takes anything out of it again.
    for old in Path("build").glob("lib*"):
        shutil.rmtree(old)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, ".", "-w", str(raw)], check=True, timeout=600)
    (built,) = raw.glob("weft_debugger-*.whl")
    _tag(built, target)
    shutil.rmtree(raw)
    return max(target.glob("weft_debugger-*.whl"), key=lambda path: path.stat().st_mtime)


def _tag(built: Path, target: Path) -> None:
    """Put a wheel into `target` with the manylinux tag that all objects in it allow."""
    beside = Path(sys.executable).parent
    path = f"{beside}{os.pathsep}{os.environ.get('PATH', '')}"
    auditwheel, patchelf = shutil.which("auditwheel", path=path), shutil.which("patchelf", path=path)
    if auditwheel is None or patchelf is None:
        print("auditwheel or patchelf is not installed: the wheel is for this machine only", file=sys.stderr)
        shutil.copy(built, target)
        return
    # A recorder finds the user's own MPI in the process; nothing of it is ever to be packed.
    command = [auditwheel, "repair", "--exclude", "libmpi*", str(built), "-w", str(target)]
    subprocess.run(command, check=True, timeout=300, env={**os.environ, "PATH": path})


def main() -> None:
    """Build the wheel without recorders, pack them, build the one with them; what was packed is taken away again."""
    target, venvs = Path(sys.argv[1]), [Path(word) for word in sys.argv[2:]]
    shutil.rmtree(prebuilt.wheel_folder(), ignore_errors=True)
    print(wheel(target))
    try:
        for venv in venvs:
            pack(venv)
        if venvs:
            print(wheel(target))
    finally:
        shutil.rmtree(prebuilt.wheel_folder(), ignore_errors=True)


if __name__ == "__main__":
    main()
