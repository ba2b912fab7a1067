"""Choose the gdb to use: the system's or that of a PyPI wheel, by whether it can call functions in a program."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

from weft.base.lazy import dataclass

WHEEL = "gdb-for-pwndbg"
"""The package that the extra `gdb` installs."""
REMEDY = "apt install gdb, or pip install gdb-for-pwndbg (the extra `gdb` of Weft)"
WHOLE_STATE = 14
"""The first gdb that writes all of a processor's registers back, as the kernel wants it where there is AMX."""


SETTINGS = ("set debuginfod enabled off", "set confirm off", "set pagination off")
"""What every gdb of Weft begins with: it asks no server and no person."""


@dataclass(frozen=True)
class GdbInstallation:
    """A gdb: its path, and what it cannot do, empty for nothing."""

    path: str
    lack: str


def find_gdb() -> str | None:
    """Return the path of the gdb to use: the system's, or that of the wheel if the system's is missing or cannot call
    functions. None if there is none."""
    return next((one.path for one in find_debuggers()), None)


def find_debuggers() -> list[GdbInstallation]:
    """Return the system's gdb and the wheel's, if installed, the one to use first."""
    found = [path for path in (shutil.which("gdb"), _find_wheel_gdb()) if path is not None]
    return sorted(
        (GdbInstallation(path, _find_missing_ability(path)) for path in dict.fromkeys(found)),
        key=lambda one: bool(one.lack),
    )


def command(gdb: str, *settings: str) -> list[str]:
    """Return the command that starts a gdb which reads no file of the user's; `settings`: further settings."""
    return [gdb, "--nx", "--quiet", *(word for setting in (*SETTINGS, *settings) for word in ("-iex", setting))]


def describe_unused_gdbs() -> list[str]:
    """Return of each gdb that is here and not used what it cannot do, as `weft doctor` tells it."""
    return [f"not {one.path}: {one.lack}" for one in find_debuggers()[1:] if one.lack]


def _find_wheel_gdb() -> str | None:
    """Return the gdb that the wheel installs, None if the wheel is not installed."""
    # A recording, which asks for no gdb, does not wait for it.
    from importlib.metadata import PackageNotFoundError, files

    with suppress(PackageNotFoundError):
        for file in files(WHEEL) or ():
            if file.name == "gdb" and file.parent.name == "bin" and "_vendor" not in file.parts:
                return str(Path(str(file.locate())).resolve())
    return None


@cache
def _find_missing_ability(path: str) -> str:
    """Return what a gdb cannot do on this machine, as a sentence; empty if it can do all."""
    if not _has_amx():
        return ""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False,
                              stdin=subprocess.DEVNULL)  # fmt: skip
        found = re.search(r"^GNU gdb .*?(\d+)\.\d+\S*$", done.stdout, re.M)
        if found and int(found[1]) < WHOLE_STATE:
            return f"gdb {found[1]} cannot call functions in a program on a processor with AMX; gdb 14 can"
    return ""


def _has_amx() -> bool:
    with suppress(OSError), Path("/proc/cpuinfo").open() as told:
        return any(line.startswith("flags") and " amx_tile" in line for line in told)
    return False
