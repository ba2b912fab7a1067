"""Make and finish a run directory: its name, its run.json, the folder of its rank files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from weft.base.lazy import dataclass
from weft.base.version import VERSION
from weft.errors import UsageError, WeftError
from weft.launch.program_files import describe_program_files
from weft.safety.folders import OpenFolder, read_regular
from weft.safety.runs import add_signature, read_own_facts

SCHEMA = "weft-run/1"
BASE = Path("weft-runs")
RUN_JSON = "run.json"
Make = Callable[[Path], object]
"""Makes a run's folder; FileExistsError where there is something of that name."""


@dataclass
class RunDirectory:
    """A run directory that is being written. `facts` is the content of run.json."""

    path: Path
    facts: dict[str, Any] = field(default_factory=dict)
    made: bool = True
    """Whether we made the folder (an empty one that the user gave stays when there is nothing to keep)."""

    @property
    def ranks(self) -> Path:
        """The folder of the rank files."""
        return self.path / "ranks"

    _held: OpenFolder | None = None
    """The folder itself, from the first time that it was needed: what takes its place later is not ours."""

    def open_folder(self) -> OpenFolder:
        """Return a handle of the folder, which stays the same folder if its path changes. Raises OSError for none, or a
        link.
        """
        if self._held is None:
            self._held = OpenFolder(self.path)
        return self._held

    def write(self) -> None:
        """Write run.json. If that fails, the old file stays as it was."""
        try:
            self.open_folder().write_whole(RUN_JSON, (json.dumps(self.facts, indent=1) + "\n").encode())
        except OSError as error:
            raise unwritable_error(self.path, error) from error

    def discard(self) -> None:
        """Remove a run directory that holds no rank, as there is nothing to read in it."""
        with suppress(OSError):
            self.open_folder().remove(RUN_JSON, "functions.json")
            self.open_folder().remove_folders(self.ranks.name)
            if self.made:
                self.open_folder().remove_itself()


def unwritable_error(path: Path, error: OSError) -> WeftError:
    """Return the error that a run folder cannot be written."""
    return WeftError(f"cannot write the run to {path}: {error.strerror or error} (choose another place with --out)")


def current_time() -> str:
    """Return the current time in ISO 8601 with its zone."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def create_run(
    out: Path | None, program: Sequence[str], command: Sequence[str], level: str, make: Make = Path.mkdir
) -> RunDirectory:
    """Make the directory of a new run with its first run.json, and return it. A folder that holds anything is never
    touched.

    `out`: the folder that the user named. `program`: names the run if `out` is None. `make`: makes the folder.
    """
    path, made = (
        (make_numbered_folder(derive_run_name(program), make), True) if out is None else make_or_reuse_folder(out, make)
    )
    path = path.absolute()
    run = RunDirectory(path, make_first_facts(command, level), made)
    try:
        run.open_folder().make_folder(run.ranks.name)
        run.write()
    except OSError as error:
        run.discard()
        raise unwritable_error(path, error) from error
    except WeftError:
        run.discard()
        raise
    return run


def make_first_facts(command: Sequence[str], level: str) -> dict[str, Any]:
    """Return run.json's facts for a run that begins."""
    return add_signature(
        {
            "schema": SCHEMA,
            "weft": VERSION,
            "command": list(command),
            **describe_program_files(command),
            "cwd": str(Path.cwd()),
            "host": os.uname().nodename,
            "started": current_time(),
            "finished": None,
            "level": level,
            "n": None,
            "mpi": {},
            "ranks": None,
            "ended": "running",
            "exit_code": None,
            "signal": None,
        }
    )


def refuse_used_folder(out: Path | None) -> None:
    """Raise UsageError early if `create_run` would later, before anything slow is done."""
    if out is not None and out.exists():
        make_or_reuse_folder(out)


def make_or_reuse_folder(out: Path, make: Make = Path.mkdir) -> tuple[Path, bool]:
    """Make the folder that the user named, or take an empty one of this name. Return (folder, whether it was made).
    UsageError if it is a file or not empty."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        make(out)
        return out, True
    except FileExistsError:
        if not out.is_dir():
            raise UsageError(f"--out {out} is a file, a run is a directory: choose another --out") from None
        if any(out.iterdir()):
            raise UsageError(f"--out {out} is not empty, and a run is never overwritten: choose another") from None
        return out, False
    except OSError as error:
        raise unwritable_error(out, error) from error


def make_numbered_folder(name: str, make: Make = Path.mkdir) -> Path:
    """Make weft-runs/<name>-<n> with the first free n, and return it."""
    try:
        BASE.mkdir(exist_ok=True)
        numbers = [
            int(match[1]) for path in BASE.iterdir() if (match := re.fullmatch(rf"{re.escape(name)}-(\d+)", path.name))
        ]
        number = max(numbers, default=0)
        while True:
            number += 1
            try:
                make(BASE / f"{name}-{number}")
            except FileExistsError:  # another `weft run` was faster
                continue
            return BASE / f"{name}-{number}"
    except OSError as error:
        raise unwritable_error(BASE, error) from error


def derive_run_name(program: Sequence[str]) -> str:
    """Return a name for the runs of a program: the script, module or file by which a person would call it."""
    words = list(program)
    name = Path(words[0]).name if words else "run"
    if re.fullmatch(r"(python|pypy)[0-9.]*t?", name):
        name = find_script_name(words[1:]) or name
    name = re.sub(r"\.(py|pyz|sh|x|exe|out)$", "", name)
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).strip(".-") or "run"


def find_script_name(words: Sequence[str]) -> str | None:
    """Return the script or module that these arguments of Python run, None for `-c`."""
    rest = iter(words)
    for word in rest:
        if word == "-m":
            return find_module_name(next(rest, ""), rest)
        if word in ("-W", "-X"):
            next(rest, None)
        elif word == "-c":
            return None
        elif not word.startswith("-"):
            return Path(word).name
    return None


def find_module_name(module: str, rest: Any) -> str | None:
    """`python -m mpi4py script.py` is called after the script."""
    return find_script_name(list(rest)) if module == "mpi4py" else module or None


def find_newest_run(base: Path = BASE) -> Path:
    """Return the run under `base` that was started last, for a command without RUN. Replays do not count.

    Runs of other users are never taken: whoever may write here would choose what is read, or executed.
    """
    # os.path, as Path raises for the folder of a user who lets nobody in.
    runs = [path for path in base.glob("*") if os.path.isfile(path / RUN_JSON)] if base.is_dir() else []  # noqa: PTH113
    own = {path: facts for path in runs if (facts := read_own_facts(path)) is not None}
    told = {path: facts for path, facts in own.items() if "replay_of" not in facts}
    if not told and len(own) < len(runs):
        raise UsageError(
            f"no run is given, and the runs in {base}{os.sep} belong to other users: name the one you mean"
        )
    if not told:
        raise UsageError(f"no run is given and there is none in {base}{os.sep}: record one with `weft run`")
    return max(told, key=lambda path: start_key(path, told[path]))


def read_facts(path: Path) -> dict[str, object]:
    """Return the content of run.json, {} if it cannot be read."""
    try:
        facts = json.loads(read_regular(path / RUN_JSON, path))
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def start_key(path: Path, facts: dict[str, Any]) -> tuple[str, float]:
    """Return a key that sorts runs by their start. A run without a recorded start comes first."""
    try:
        return (str(facts.get("started") or ""), path.stat().st_mtime) if facts else ("", 0.0)
    except OSError:
        return ("", 0.0)
