"""Read the arguments of the `launch` request: a recorded run, or a program that is recorded first."""

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
from weft.safety.runs import TRUST_REMEDY, describe_execution, explain_doubt, hash_execution
from weft.safety.started import own_python

Arguments = Mapping[str, Any]
KINDS: dict[str, tuple[type, ...]] = {
    "run": (str,), "program": (str, list), "args": (str, list), "ranks": (int,), "python": (str,), "cwd": (str,),
    "env": (dict,), "stdin": (str,), "until": (str, list), "finding": (int,), "stopOnEntry": (bool,),
    "stepAll": (bool,), "nativeFrames": (bool,), "tasks": (bool,), "trust": (bool,), "secret": (str,),
    "agreed": (str,),
}  # fmt: skip
"""The arguments of `launch`, and of which types they may be."""


def check_arguments(arguments: Arguments) -> None:
    """Raise UsageError if an argument of `launch` has a wrong type or value. Unknown arguments are ignored."""
    for name, kinds in KINDS.items():
        value = arguments.get(name)
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            what = {str: "a text", list: "a list", int: "a number", dict: "an object", bool: "true or false"}
            wanted = " or ".join(what[kind] for kind in kinds)
            raise UsageError(f"launch: {name} is {value!r}; it must be {wanted}")
    if (ranks := arguments.get("ranks")) is not None and ranks < 1:
        raise UsageError(f"launch: ranks is {ranks}; it must be 1 or more")
    cwd = arguments.get("cwd")
    if cwd and not Path(cwd).is_dir():
        raise UsageError(f"launch: cwd is {cwd}, which is not a folder")


def program_command(arguments: Arguments) -> list[str]:
    """Return the command line of the program that `launch` names; a Python script gets an interpreter in front. Empty
    if none is named.
    """
    given = arguments.get("program")
    if not given:
        return []
    rest = arguments.get("args") or []
    words = [given] if isinstance(given, str) else [str(word) for word in given]
    if words[0].endswith(".py"):
        own = sys.executable if importlib.util.find_spec("mpi4py") else shutil.which("python3") or sys.executable
        words.insert(0, str(arguments.get("python") or own))
    return words + (shlex.split(rest) if isinstance(rest, str) else [str(word) for word in rest])


def replay_options(arguments: Arguments) -> list[str]:
    """Return the options of `weft replay` for the number of ranks and standard input in `arguments`."""
    ranks, stdin = arguments.get("ranks"), arguments.get("stdin")
    return (["-n", str(ranks)] if ranks else []) + (["--stdin", str(Path(stdin).absolute())] if stdin else [])


def replay_consent_options(run: Path, arguments: Arguments) -> list[str]:
    """Return the options that let a replay execute the command named in the run. UsageError if the run is another
    user's, and neither `trust` nor `agreed` in `arguments` permits it.
    """
    facts = read_facts(run)
    word = hash_execution(facts)
    given = arguments.get("trust") is True or arguments.get("agreed") == word
    if (why := explain_doubt(run, facts)) and not given:
        command, place = describe_execution(facts)
        raise UsageError(f"{run}: {why}; a replay executes `{command}` in {place} with your rights: {TRUST_REMEDY}")
    return ["--agreed", word]


def start_locations(arguments: Arguments) -> list[str]:
    """Return the locations to which the session first runs, as arguments of the command `until`."""
    until = arguments.get("until") or []
    found = [until] if isinstance(until, str) else [str(place) for place in until]
    return found + ([f"finding:{arguments['finding']}"] if arguments.get("finding") else [])


def find_or_record_run(
    arguments: Arguments, show_output: Callable[[str], None], poll: Callable[[], None]
) -> tuple[Path, list[str]]:
    """Return the path of the run to debug, and the command line of another build of its program (empty if none is
    given). If `arguments` name a program but no run, it is recorded first.

    Also sets the environment and the working folder of this process. `show_output(text)`: is given what the program
    writes. `poll()`: is called while the program runs; a KeyboardInterrupt from it ends the program.
    """
    os.environ.update({str(name): str(value) for name, value in (arguments.get("env") or {}).items()})
    if arguments.get("cwd"):
        os.chdir(arguments["cwd"])
    words = program_command(arguments)
    if arguments.get("run"):
        return Path(arguments["run"]), words
    if not words:
        return find_newest_run(), []
    return record_program(words, arguments, show_output, poll), []


def record_program(
    command_line: Sequence[str], arguments: Arguments, show_output: Callable[[str], None], poll: Callable[[], None]
) -> Path:
    """Record a program with `weft run`, and return the path of the new run. WeftError if nothing was recorded.

    `show_output(text)`: is given what the program writes. `poll()`: is called while the program runs.
    """
    before = set(BASE.glob("*"))
    ranks, stdin = arguments.get("ranks"), arguments.get("stdin")
    command = own_python("-m", "weft.cli.main", "run", *(["-n", str(ranks)] if ranks else []), "--", *command_line)
    show_output(f"recording: {shlex.join(command_line)}\n")
    with open(stdin or os.devnull, "rb") as source:  # noqa: PTH123
        process = subprocess.Popen(
            command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"}, preexec_fn=bound_to_parent(signal.SIGTERM),  # noqa: PLW1509 - from the main thread
        )  # fmt: skip
    try:
        _forward_output(process, show_output, poll)
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(10)
        raise
    made = set(BASE.glob("*")) - before
    if not made:
        raise WeftError(
            f"{shlex.join(command_line)}: nothing was recorded (`weft run` ended with {process.returncode})"
        )
    return find_newest_run()


def _forward_output(
    process: subprocess.Popen[bytes], show_output: Callable[[str], None], poll: Callable[[], None]
) -> None:
    """Pass what a process writes to `show_output` until it ends. Call `poll` while it writes nothing."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    ended = False
    while True:
        data = process.stdout.read(1 << 16)
        if data:
            show_output(data.decode(errors="replace"))
        elif ended:
            return
        else:
            poll()
            ended = process.poll() is not None
            time.sleep(0.02)
