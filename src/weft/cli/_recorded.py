"""Records a program first, for commands that take one in place of a run."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from weft.errors import WeftError
from weft.safety.started import own_python


def record_program(
    command: Sequence[str], n: int | None, *, stdin: int | IO[bytes] | None = None, stdout: int | None = None,
    keep_interrupted: bool = False,
) -> Path:  # fmt: skip
    """Record a program with `weft run` in this terminal, and return the run. WeftError if it left no record.

    `keep_interrupted`: Ctrl-C ends the program, and what was recorded until then is the run. The ranks do not see
    Ctrl-C: a replay could not repeat what a program does about it.
    """
    from weft.launch.rundir import BASE, current_time, find_newest_run, read_facts

    count = [] if n is None else ["-n", str(n)]
    begun = current_time()
    process = subprocess.Popen(
        own_python("-m", "weft", "run", *count, "--", *command), stdin=stdin, stdout=stdout,
        process_group=0 if keep_interrupted else None,
    )  # fmt: skip
    try:
        process.wait()
    except BaseException as error:
        process.terminate()  # `weft run` then ends its ranks
        process.wait()
        if not (keep_interrupted and isinstance(error, KeyboardInterrupt)):
            raise
    made = find_newest_run() if any(BASE.glob("*")) else None
    facts = read_facts(made) if made is not None else {}
    is_typed_here = (facts.get("command"), facts.get("cwd")) == (list(command), str(Path.cwd()))
    if made is None or not is_typed_here or str(facts.get("started")) < begun:
        raise WeftError(f"`{' '.join(command)}` left no record: run it with `weft run` to see why")
    return made


def hash_recorded_execution(path: Path) -> str:
    """Return the hash of what a replay of this run executes, as consent to execute it. No question is asked: the run
    was recorded just now, so that the user has typed its program here."""
    from weft.launch.rundir import read_facts
    from weft.safety.runs import hash_execution

    return hash_execution(read_facts(path))
