"""List recorded runs, or remove some.

weft runs                       lists your runs in weft-runs, the newest first
weft runs DIR                   lists your runs in another directory
weft runs --remove RUN...       removes these runs, without a question
weft runs --keep-newest 10      removes all your runs in weft-runs but the ten newest, without a question

Only runs that you recorded and that have ended are removed.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import time
from pathlib import Path
from typing import Any

from weft.base.words import printable
from weft.cli import _options
from weft.cli._said import say, shorten_path
from weft.errors import NoRunError, UsageError, WeftError

HEADS = ("run", "started", "ranks", "size", "ended", "command")


def register(subparsers: Any) -> None:
    """Declare `weft runs` and its options to argparse."""
    parser = subparsers.add_parser(
        "runs", help="list recorded runs, or remove some", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument(
        "folder", nargs="?", type=Path, metavar="DIR", help="directory of the runs (default: weft-runs)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="text (default), or JSON lines")
    removing = parser.add_mutually_exclusive_group()
    removing.add_argument("--remove", type=Path, nargs="+", metavar="RUN", help="remove these runs")
    removing.add_argument(
        "--keep-newest",
        type=_options.parse_positive,
        metavar="N",
        help="remove, without a question, all runs of yours in DIR that have ended but the N newest",
    )


def run(args: argparse.Namespace) -> int:
    """Run `weft runs`: list recorded runs, or remove some."""
    from weft.launch.rundir import BASE

    if args.remove:
        if args.folder is not None:
            raise UsageError("--remove names the runs itself: leave out DIR")
        for path in args.remove:
            remove_run(path)
        return 0
    folder = args.folder or BASE
    if args.folder is not None and not folder.is_dir():
        raise UsageError(f"{folder} is not a directory")
    found = find_runs(folder)
    if args.keep_newest:
        for path, _ in found[args.keep_newest :]:
            remove_run(path)
        return 0
    if args.format == "json":
        for path, facts in found:
            print(json.dumps({"path": str(path), "bytes": size_of(path), **facts}))
    elif found:
        print_rows([HEADS, *(format_run_row(path, facts) for path, facts in found)])
    else:
        say(f"there is no run of yours in {folder}: record one with `weft run`")
    return 0


def find_runs(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the runs of this user in a directory with the content of run.json, the newest first."""
    from weft.launch.rundir import RUN_JSON, start_key
    from weft.safety.runs import read_own_facts

    paths = [path for path in folder.glob("*") if (path / RUN_JSON).is_file()] if folder.is_dir() else []
    found = [(path, facts) for path in paths if (facts := read_own_facts(path)) is not None]
    return sorted(found, key=lambda one: start_key(*one), reverse=True)


def format_run_row(path: Path, facts: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a run's line: path, start, ranks, size, ending and command."""
    command = facts.get("command")
    words = shlex.join(map(str, command)) if isinstance(command, list) else "?"
    of = facts.get("replay_of")
    ended, status = str(facts.get("ended") or "?"), facts.get("exit_code")
    return tuple(
        printable(cell)
        for cell in (
            shorten_path(path.absolute()), str(facts.get("started") or "?")[:16].replace("T", " "),
            str(facts.get("ranks") or "?"), size_text(size_of(path)),
            f"{ended} ({status})" if status else ended,
            f"replay of {Path(str(of)).name}" if of else words[:60],
        )
    )  # fmt: skip


def size_of(path: Path) -> int:
    """Return the bytes of the files of a run."""
    return sum(one.lstat().st_size for one in path.rglob("*") if one.is_file())


def size_text(size: float) -> str:
    """Return a size in bytes as people read it, such as `12 kB` or `3.4 GB`."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def print_rows(rows: list[tuple[str, ...]]) -> None:
    """Print lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def remove_run(path: Path) -> None:
    """Remove one run of this user. NoRunError for anything else, WeftError while it is being recorded."""
    from weft.launch.rundir import SCHEMA
    from weft.safety.runs import read_own_facts

    facts = read_own_facts(path)
    if facts is None or facts.get("schema") != SCHEMA:
        raise NoRunError(f"{path} is not a run of yours, so Weft removed nothing")
    if facts.get("ended") == "running" and may_be_recorded(path):
        raise WeftError(f"{path} is still being recorded: end that run first")
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise WeftError(f"{path} cannot be removed: {error.strerror}") from error
    say(f"removed {shorten_path(path.absolute())}")


def may_be_recorded(path: Path) -> bool:
    """Return whether a run may still be written: a rank may still run, or a file changed in the last 10 s, as `weft
    run` finishes the run then."""
    from weft.launch.rank_processes import is_record_final

    latest = max((one.lstat().st_mtime for one in path.rglob("*")), default=0.0)
    return time.time() - latest < 10 or not all(is_record_final(one) for one in path.glob("ranks/*.weft"))
