"""What the editor wants debugged: a recorded run, or a program that is recorded first."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.base.lifetime import bound_to_parent
from weft.errors import UsageError, WeftError
from weft.launch.rundir import BASE, find_newest_run, read_facts
from weft.safety.runs import agreement, doubt, executes
from weft.safety.started import own_python

Arguments = Mapping[str, Any]
KINDS: dict[str, tuple[type, ...]] = {
    "run": (str,), "program": (str, list), "args": (str, list), "ranks": (int,), "python": (str,), "cwd": (str,),
    "env": (dict,), "stdin": (str,), "until": (str, list), "finding": (int,), "stopOnEntry": (bool,),
    "stepAll": (bool,), "nativeFrames": (bool,), "tasks": (bool,), "trust": (bool,), "secret": (str,),
    "agreed": (str,),
}  # fmt: skip
"""The arguments of `launch`, and of which types they may be."""


def check(arguments: Arguments) -> None:
    """UsageError for an argument of a wrong type; those of editors (`__sessionId`) and names not ours are theirs."""
    for name, kinds in KINDS.items():
        value = arguments.get(name)
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            what = {str: "a text", list: "a list", int: "a number", dict: "an object", bool: "true or false"}
            wanted = " or ".join(what[kind] for kind in kinds)
            raise UsageError(f"launch: {name} is {value!r}, give {wanted}")
    if (ranks := arguments.get("ranks")) is not None and ranks < 1:
        raise UsageError(f"launch: ranks is {ranks}, give 1 or more")
    cwd = arguments.get("cwd")
    if cwd and not Path(cwd).is_dir():
        raise UsageError(f"launch: cwd is {cwd}, which is not a folder")


def program(arguments: Arguments) -> list[str]:
    """The program's command line: Python scripts with their interpreter."""
    given = arguments.get("program")
    if not given:
        return []
    rest = arguments.get("args") or []
    words = [given] if isinstance(given, str) else [str(word) for word in given]
    if words[0].endswith(".py"):
        own = sys.executable if importlib.util.find_spec("mpi4py") else shutil.which("python3") or sys.executable
        words.insert(0, str(arguments.get("python") or own))
    return words + (shlex.split(rest) if isinstance(rest, str) else [str(word) for word in rest])


def options(arguments: Arguments) -> list[str]:
    """Options of the replay."""
    ranks, stdin = arguments.get("ranks"), arguments.get("stdin")
    return (["-n", str(ranks)] if ranks else []) + (["--stdin", str(Path(stdin).absolute())] if stdin else [])


def agreed(run: Path, arguments: Arguments) -> list[str]:
    """The option that lets a replay execute what the run names. UsageError for another's run that is not trusted."""
    facts = read_facts(run)
    word = agreement(facts)
    given = arguments.get("trust") is True or arguments.get("agreed") == word
    if (why := doubt(run, facts)) and not given:
        command, place = executes(facts)
        raise UsageError(
            f"{run}: {why}; a replay executes, as you, `{command}` in {place}: launch it with trust: true to have it so"
        )
    return ["--agreed", word]


def places(arguments: Arguments) -> list[str]:
    """Where the session begins, as the command `until` takes it."""
    until = arguments.get("until") or []
    found = [until] if isinstance(until, str) else [str(place) for place in until]
    return found + ([f"finding:{arguments['finding']}"] if arguments.get("finding") else [])


def run_of(arguments: Arguments, said: Callable[[str], None], look: Callable[[], None]) -> tuple[Path, list[str]]:
    """The run to debug, and another build of its program, if one is given. A program without a run is recorded.

    `said`: shows what the program writes; `look`: called while it runs, KeyboardInterrupt from it ends that.
    """
    os.environ.update({str(name): str(value) for name, value in (arguments.get("env") or {}).items()})
    if arguments.get("cwd"):
        os.chdir(arguments["cwd"])
    words = program(arguments)
    if arguments.get("run"):
        return Path(arguments["run"]), words
    if not words:
        return find_newest_run(), []
    return record(words, arguments, said, look), []


def record(words: Sequence[str], arguments: Arguments, said: Callable[[str], None], look: Callable[[], None]) -> Path:
    """Record a program by `weft run`; its run. WeftError with its words where there is none."""
    before = set(BASE.glob("*"))
    ranks, stdin = arguments.get("ranks"), arguments.get("stdin")
    command = own_python("-m", "weft.cli.main", "run", *(["-n", str(ranks)] if ranks else []), "--", *words)
    said(f"recording: {shlex.join(words)}\n")
    with open(stdin or os.devnull, "rb") as source:  # noqa: PTH123
        process = subprocess.Popen(
            command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"}, preexec_fn=bound_to_parent(signal.SIGTERM),  # noqa: PLW1509 - from the main thread
        )  # fmt: skip
    try:
        _listen(process, said, look)
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
        raise
    made = set(BASE.glob("*")) - before
    if not made:
        raise WeftError(f"{shlex.join(words)}: nothing was recorded (`weft run` ended with {process.returncode})")
    return find_newest_run()


def _listen(process: subprocess.Popen[bytes], said: Callable[[str], None], look: Callable[[], None]) -> None:
    """Show what a program writes until it ends."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    ended = False
    while True:
        data = process.stdout.read(1 << 16)
        if data:
            said(data.decode(errors="replace"))
        elif ended:
            return
        else:
            look()
            ended = process.poll() is not None
            time.sleep(0.02)
