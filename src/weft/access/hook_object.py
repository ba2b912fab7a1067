"""Build the object that `weft cc` links programs with, on first use, with the system's compiler."""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Final

from weft.base.version import VERSION
from weft.errors import UsageError, WeftError
from weft.native.library import library_headers, wrapped_functions
from weft.safety.folders import cache_folder, is_safely_cached, make_private

_FLAGS: Final = (
    "-std=gnu11",
    "-O2",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-builtin",
    "-fno-lto",
    "-I.",
    f'-DWEFT_VERSION="{VERSION}"',
)
_BUILD_SECONDS: Final = 120


def link_options() -> list[str]:
    """Return the words to add to a link command: the object with the hooks, and options for the functions that it
    wraps.
    """
    target = build_hook_object()
    return [str(target), *(f"-Wl,--wrap={name}" for name in wrapped_functions(target))]


def build_hook_object() -> Path:
    """Return the path of the object file with the access hooks (functions called at memory accesses). It is built if it
    is not cached; WeftError if that fails.
    """
    weft = files("weft")
    texts = [
        weft / "access/native/hooks.c",
        weft / "access/native/synchronisation.h",
        weft / "recorder/client.h",
        *library_headers(),
    ]
    contents = {text.name: text.read_bytes() for text in texts}
    key = hashlib.sha256(b"".join(contents.values()) + repr(_FLAGS).encode()).hexdigest()[:16]
    target = cache_folder() / "access" / key / "weft-access.o"
    if not is_safely_cached(target):
        _compile_hooks(contents, target)
    return target


def make_inlining_options() -> list[str]:
    """Return the options that make gcc use Weft's assembler, which replaces most hook calls by inline code (x86-64
    only). Also writes a script for it into the cache.

    Empty if that is impossible: then each hook is a call, which takes several times as long.
    """
    real = shutil.which("as")
    if platform.machine() != "x86_64" or real is None or not shutil.which("sh"):
        return []
    words = [sys.executable, "-IS", str(files("weft") / "instrument/assembler.py"), real]
    text = f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'
    folder = cache_folder() / "access" / hashlib.sha256(text.encode()).hexdigest()[:16]
    script = folder / "as"
    if not is_safely_cached(script):
        try:
            make_private(folder)
            work = folder / f"made-{os.getpid()}"
            work.write_text(text)
            work.chmod(0o755)
            work.replace(script)
        except OSError:
            return []
    return [f"-B{folder}/", "-fverbose-asm"]


def _compile_hooks(contents: dict[str, bytes], target: Path) -> None:
    """Compile the hooks to an object file at `target`. Raises UsageError if there is no C compiler, or it fails."""
    compiler = next((c for c in (os.environ.get("WEFT_CC"), "gcc", "cc", "clang") if c and shutil.which(c)), None)
    if compiler is None:
        raise UsageError(
            "`weft cc` needs a C compiler for its own object file and found none: install gcc, or name one in WEFT_CC"
        )
    try:
        make_private(target.parent)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            for name, text in contents.items():
                Path(folder, name).write_bytes(text)
            command = [compiler, *_FLAGS, "-c", "hooks.c", "-o", "made.o"]
            done = subprocess.run(
                command,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=_BUILD_SECONDS,
                check=False,
                errors="replace",
            )
            if done.returncode:
                raise WeftError(
                    f"{compiler} cannot compile the object file that `weft cc` links into programs: "
                    f"{done.stderr.strip()}"
                )
            Path(folder, "made.o").replace(target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WeftError(
            f"the object file that `weft cc` links into programs cannot be written in {target.parent}: {error}"
        ) from error
