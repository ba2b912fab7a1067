"""Poorer machines, made on this one, and the tests on each: what one lacks is skipped with that reason, never failed.

    python tools/machines.py                          the fast tests on every machine
    python tools/machines.py -m no-gdb tests/attach   a part of them on one
    python tools/machines.py -m no-gdb -- weft doctor another command than pytest
    python tools/machines.py --list                   the machines

A machine is a namespace of mounts, a user, a filter of system calls or another gdb; nothing outside of it changes.
Where one cannot be made here it is said, and not counted as passed. Exits with 1 where a test failed or no machine was
made.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

ROOT: Final = Path(__file__).resolve().parent.parent
NOBODY: Final = 65534
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "mqueue", "fuse")
TRACING: Final = {"x86_64": (0xC000003E, (101, 310, 311)), "aarch64": (0xC00000B7, (117, 270, 271))}
"""For each machine its name in a filter, and the numbers of ptrace, process_vm_readv and process_vm_writev."""
CANNOT_CALL: Final = """\
/* gdb before 14 on a CPU with AMX: the kernel takes the whole extended state only, and gdb knows an older size. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/types.h>

enum { SETREGSET = 0x4205, XSTATE = 0x202 };

__attribute__((constructor)) static void for_gdb_alone(void) { unsetenv("LD_PRELOAD"); }

long ptrace(int request, ...) {
    va_list given;
    va_start(given, request);
    pid_t pid = va_arg(given, pid_t);
    void *address = va_arg(given, void *), *data = va_arg(given, void *);
    va_end(given);
    long (*real)(int, pid_t, void *, void *) = (long (*)(int, pid_t, void *, void *))dlsym(RTLD_NEXT, "ptrace");
    if (request == SETREGSET && (long)address == XSTATE) return errno = EFAULT, -1;
    return real(request, pid, address, data);
}
"""


class CannotMake(Exception):
    """Why a machine cannot be made here."""


def told(*words: str) -> str:
    """What a command prints in this checkout."""
    return subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


@dataclass(frozen=True)
class Machine:
    """A poorer machine. `enter` makes this process stand on it, with a folder that is the machine's own."""

    lacks: str
    enter: Callable[[Path], None]
    mounts: bool = True
    """Whether it needs a namespace of mounts, in which `enter` is run."""


def done(*words: str | Path) -> None:
    """Run a command. CannotMake with what it said."""
    try:
        told = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotMake(str(error)) from error
    if told.returncode:
        raise CannotMake(f"{' '.join(map(str, words))}: {told.stderr.strip() or told.returncode}")


def hidden(*patterns: str) -> Callable[[Path], None]:
    """Take programs away: in their place stands a file that cannot be executed."""

    def enter(folder: Path) -> None:
        places = {Path(place) for place in os.environ["PATH"].split(os.pathsep)} | {Path(sys.executable).parent}
        found = {one.resolve() for place in places if place.is_dir() for one in place.iterdir()
                 if any(fnmatch(one.name, pattern) for pattern in patterns) and one.is_file()}  # fmt: skip
        for program in sorted(found):
            done("mount", "--bind", "/dev/null", program)
        if left := [name for name in patterns if "*" not in name and shutil.which(name)]:
            raise CannotMake(f"{', '.join(left)} cannot be hidden")

    return enter


def calls_nothing(folder: Path) -> None:
    """A gdb that attaches and reads, but whose writing of the extended state the kernel refuses."""
    gdb, compiler = shutil.which("gdb"), shutil.which("cc") or shutil.which("gcc")
    if gdb is None or compiler is None:
        raise CannotMake("needs gdb and a C compiler")
    (folder / "refused.c").write_text(CANNOT_CALL)
    done(compiler, "-shared", "-fPIC", "-o", folder / "refused.so", folder / "refused.c", "-ldl")
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "gdb"
    wrapper.write_text(f'#!/bin/sh\nLD_PRELOAD={folder}/refused.so exec {gdb} "$@"\n')
    wrapper.chmod(0o755)
    os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


def untraced(folder: Path) -> None:
    """No process traces another or reads its memory by a system call, as many containers have it."""
    if platform.machine() not in TRACING:
        raise CannotMake(f"the filter is written for {' and '.join(TRACING)}")
    kind, numbers = TRACING[platform.machine()]
    steps = [(0x20, 0, 0, 4), (0x15, 0, len(numbers) + 1, kind), (0x20, 0, 0, 0)]
    steps += [(0x15, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    steps += [(0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050001)]  # all others are let through; these: EPERM
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid():
        libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS: without it only root may set a filter
    if libc.prctl(22, 2, program, 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise CannotMake(f"no filter of system calls: {os.strerror(ctypes.get_errno())}")
    os.environ["MPIR_CVAR_CH4_CMA_ENABLE"] = "0"  # MPICH 5 fails there without, also where there is no Weft


def small_shm(folder: Path) -> None:
    """A /dev/shm of 64 KiB; containers have 64 MiB, which more ranks than two fill."""
    done("mount", "-t", "tmpfs", "-o", "size=64k,mode=1777", "tmpfs", "/dev/shm")


def no_shm(folder: Path) -> None:
    """A /dev with what programs cannot do without, and no /dev/shm."""
    made = folder / "dev"
    made.mkdir()
    done("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", made)
    for name in DEVICES:
        if (there := Path("/dev") / name).exists():
            (made / name).mkdir() if there.is_dir() else (made / name).touch()
            done("mount", "--rbind", there, made / name)
    for name, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        (made / name).symlink_to(f"/proc/self/fd{target}")
    done("mount", "--move", made, "/dev")


def without_root(folder: Path) -> None:
    """Nobody, with a home and a copy of this checkout; what lies where that user may not go is shown there."""
    if os.geteuid():
        return  # this machine is one
    home, copy = folder / "home", folder / "checkout"
    home.mkdir()
    copy.mkdir()
    files = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = [*told(*files, "--cached").split("\0"), *told(*files, "--ignored", "--", "src").split("\0")]
    for name in (name for name in listed if name and "__pycache__" not in name):
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    for name in (".venv", ".venv-openmpi"):
        if (ROOT / name).exists():
            (copy / name).symlink_to((ROOT / name).resolve())
    done("git", "-C", copy, "init", "--quiet")
    done("git", "-C", copy, "add", "--all")
    done("chown", "--recursive", f"{NOBODY}:{NOBODY}", folder)
    shown([Path(sys.base_prefix), Path(sys.prefix).resolve(), *((ROOT / ".venv-openmpi").resolve(),)])
    os.chdir(copy)
    os.environ.update(HOME=str(home), USER="nobody", LOGNAME="nobody", PYTHONPATH=str(copy / "src"))
    for name in ("WEFT_CACHE", "PYENV_ROOT", "XDG_CACHE_HOME", "TMPDIR"):
        os.environ.pop(name, None)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    if not os.access(sys.executable, os.X_OK):
        raise CannotMake(f"the user nobody cannot run {sys.executable}")


def shown(paths: Iterable[Path]) -> None:
    """Let everybody read these paths: a folder that others may not enter is covered by one with these alone."""
    closed: dict[Path, list[Path]] = {}
    for path in paths:
        way = next((one for one in reversed(path.parents) if not one.stat().st_mode & 0o001), None)
        if way is not None:
            closed.setdefault(way, []).append(path)
    for way, below in closed.items():
        with tempfile.TemporaryDirectory() as place:
            stages = [(path, Path(place) / str(number)) for number, path in enumerate(below)]
            for path, stage in stages:
                stage.mkdir()
                done("mount", "--bind", path, stage)
            done("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", way)
            for path, stage in stages:
                path.mkdir(parents=True)
                done("mount", "--move", stage, path)


MACHINES: Final[Mapping[str, Machine]] = {
    "user": Machine("root: a user with a home and a copy of the checkout", without_root),
    "no-gdb": Machine("gdb", hidden("gdb", "gcore", "gdbserver")),
    "gdb-cannot-call": Machine("a gdb that can call a function in a process", calls_nothing, mounts=False),
    "no-ptrace": Machine("ptrace and process_vm_readv: a filter forbids them", untraced, mounts=False),
    "small-shm": Machine("room in /dev/shm: 64 KiB", small_shm),
    "no-shm": Machine("/dev/shm", no_shm),
    "no-tools": Machine(
        "node, clang, gfortran, valgrind, PVM, a browser, zsh, fish, groff",
        hidden("node", "npm", "clang", "clang-[0-9]*", "clang++*", "gfortran", "*-linux-gnu-gfortran*", "valgrind",
               "pvm", "pvmd*", "chromium", "chromedriver", "zsh", "fish", "groff", "otf2-print"),
    ),
}  # fmt: skip


def entered(machine: Machine, folder: Path, command: Sequence[str]) -> int:
    """Run a command on a machine, as another process that stands there; its exit status."""
    words = [sys.executable, __file__, "--inside", str(folder), "--machine", name_of(machine), "--", *command]
    if machine.mounts:
        kinds = ["--mount", "--propagation", "private"]
        words = ["unshare", *kinds, *(["--map-root-user"] if os.geteuid() else []), *words]
    return subprocess.run(words, cwd=ROOT, check=False).returncode


def name_of(machine: Machine) -> str:
    """The name of a machine in the table."""
    return next(name for name, one in MACHINES.items() if one is machine)


def stand_there(machine: Machine, folder: Path, command: Sequence[str]) -> int:
    """Become a process of that machine, then the command; what stops that is written into the folder."""
    try:
        machine.enter(folder)
    except CannotMake as error:
        (folder / "cannot").write_text(str(error))
        return 1
    return os.execvp(command[0], command)


@dataclass(frozen=True)
class Told:
    """What came of the tests on one machine."""

    passed: int
    failed: tuple[str, ...]
    skipped: Counter[str]


def read(results: Path) -> Told:
    """The results of pytest: how many passed, which did not, and why some were skipped."""
    passed, failed, skipped = 0, [], Counter[str]()
    for case in ElementTree.parse(results).getroot().iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if (skip := case.find("skipped")) is not None:
            skipped[str(skip.get("message"))] += 1
        elif (fault := case.find("failure") if case.find("failure") is not None else case.find("error")) is not None:
            failed.append(f"{name}: {str(fault.get('message')).splitlines()[0][:160]}")
        else:
            passed += 1
    return Told(passed, tuple(failed), skipped)


def tried(name: str, tests: Sequence[str], jobs: int) -> bool | None:
    """Run tests on a machine and say what came of it. Whether none failed; None where the machine cannot be made."""
    with tempfile.TemporaryDirectory(prefix=f"weft-{name}-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        folder.chmod(0o755)
        results = folder / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not matrix", "-n", str(jobs), "--dist", "loadfile",
                   "--junitxml", str(results), *tests]  # fmt: skip
        print(f"== {name}: a machine without {MACHINES[name].lacks}", flush=True)
        status = entered(MACHINES[name], folder, command)
        if not results.exists():
            cannot = folder / "cannot"
            print(f"{name}: not made: {cannot.read_text() if cannot.exists() else f'status {status}'}", flush=True)
            return None
        came = read(results)
    for reason, count in came.skipped.most_common():
        print(f"{name}: skipped {count}: {reason}")
    for failure in came.failed:
        print(f"{name}: FAILED {failure}")
    print(f"{name}: {came.passed} passed, {len(came.failed)} failed, {came.skipped.total()} skipped", flush=True)
    return not came.failed


def main() -> int:
    """Make the machines that are asked for and run what is asked for on each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--machine", action="append", choices=MACHINES, help="one of them, not all")
    parser.add_argument("-j", "--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, tests = parser.parse_known_args(sys.argv[1:cut])
    command, names = sys.argv[cut + 1 :], args.machine or list(MACHINES)
    if args.list:
        print("\n".join(f"{name:<16} without {machine.lacks}" for name, machine in MACHINES.items()))
        return 0
    if args.inside:
        return stand_there(MACHINES[names[0]], args.inside, command)
    if command:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
            Path(place).chmod(0o755)
            status = entered(MACHINES[names[0]], Path(place), command)
            if (cannot := Path(place) / "cannot").exists():
                print(f"{names[0]}: not made: {cannot.read_text()}", file=sys.stderr)
            return status
    came = [tried(name, tests or ["tests"], args.jobs) for name in names]
    print(f"{sum(one is not None for one in came)} of {len(came)} machines made, {came.count(False)} with failures")
    return int(False in came or not any(came))


if __name__ == "__main__":
    sys.exit(main())
