"""Answers the shell that asks how a command line goes on (argcomplete's protocol, see decision 0006)."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

BASE: Final = Path("weft-runs")
"""Where runs are made, as weft.launch.rundir has it."""

MAX_RANKS: Final = 64
ASKED: Final = "_ARGCOMPLETE"


def is_completion_request() -> bool:
    """Return whether a shell started this process to complete a line."""
    return ASKED in os.environ


def commands_on_line(known: Iterable[str]) -> list[str]:
    """Return the commands whose options are needed: the one that the line names, or all."""
    words = os.environ.get("COMP_LINE", "")[: _cursor_position()].split(" ")
    return [words[1]] if len(words) > 2 and words[1] in known else list(known)


def _cursor_position() -> int | None:
    text = os.environ.get("COMP_POINT", "")
    return int(text) if text.isdecimal() else None


def complete_and_exit(parser: argparse.ArgumentParser) -> None:
    """Print how the shell may complete the command line, and end the process."""
    import argcomplete

    _attach_completers(parser)
    argcomplete.autocomplete(parser)


def _attach_completers(parser: argparse.ArgumentParser) -> None:
    """Give each argument the function that completes it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                _attach_completers(below)
        elif (found := COMPLETERS.get(str(action.metavar)) or COMPLETERS.get(action.dest)) is not None:
            action.completer = found  # type: ignore[attr-defined]


def complete_runs(prefix: str, **_: object) -> list[str]:
    """Return the directories of runs, and folders on the way to them, that begin with `prefix`."""
    folder = Path(prefix) if prefix.endswith("/") else Path(prefix).parent
    near = [path for path in _list_folders(folder) if str(path).startswith(prefix)]
    found = [f"{path}" if _is_run(path) else f"{path}/" for path in near]
    made = [str(path) for path in _list_folders(BASE) if _is_run(path) and str(path).startswith(prefix)]
    # Those of weft-runs are offered whole at once: mostly they are what is meant.
    return sorted({*made, *(text for text in found if not (made and text == f"{BASE}/"))})


def _list_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, without hidden ones; none if it cannot be read."""
    try:
        return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]
    except OSError:
        return []


def _is_run(folder: Path) -> bool:
    return os.path.isfile(folder / "run.json")  # noqa: PTH113 (Path raises where one may not look)


def complete_ranks(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the ranks of the run on the line, or of the newest run. After a comma or a dash, complete the next
    number."""
    from weft.safety.folders import read_regular

    run = getattr(parsed_args, "run", None) or _newest_run()
    try:
        count = int(json.loads(read_regular(Path(run) / "run.json", Path(run)))["ranks"]) if run else 0
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return []
    done = prefix[: max(prefix.rfind(","), prefix.rfind("-")) + 1]
    return [f"{done}{rank}" for rank in range(min(count, MAX_RANKS))]


def _newest_run() -> Path | None:
    """Return the run of this user in weft-runs that was written last, None if there is none."""
    from weft.safety.runs import is_own

    made = [path for path in _list_folders(BASE) if _is_run(path) and is_own(path)]
    return max(made, key=lambda path: (path / "run.json").stat().st_mtime, default=None)


def complete_kinds(**_: object) -> list[str]:
    """Return the kinds of findings, for an argument that names one."""
    from weft.kinds import KINDS

    return list(KINDS)


COMPLETERS: Final[dict[str, Callable[..., list[str]]]] = {
    "RUN": complete_runs, "rank": complete_ranks, "KIND": complete_kinds,
}  # fmt: skip
"""By an argument's metavar, else by its name, what completes it."""
