"""Handles slow file systems for `weft run`. Few are slow: the modules for them are only imported then."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from weft.cli._said import say, shorten_path
from weft.launch import remote_hosts, staging

if TYPE_CHECKING:
    from pathlib import Path

    from weft.launch.plan import LaunchPlan
    from weft.launch.rundir import RunDirectory
    from weft.launch.staging import StagedRun

LONG: Final = 64 << 20
"""The bytes from which on the move is announced before it begins."""
LOCAL: Final = "add `--local /tmp` to record on each host's own disk"
OTHER: Final = "choose another place with --out"


def choose_staging(plan: LaunchPlan, args: argparse.Namespace) -> StagedRun | None:
    """Return a faster folder in which to record the run first, None to record it in its own folder. If the own folder
    is slow, print why another one is taken, or why it cannot be."""
    if args.local is not None or args.in_place:
        return None
    ground = staging.find_existing_folder(args.out)
    took = staging.measure_write_time(ground)
    if took is None or took < staging.SLOW:
        return None
    slow = describe_slowness(ground, took)
    if plan.pvm is not None or remote_hosts.may_use_other_hosts(plan.line):
        say(f"note: {slow}, and the program waits for it: {LOCAL if plan.pvm is None else OTHER}")
        return None
    base = staging.find_faster_folder(ground)
    there = staging.stage_run(base, args.out) if base is not None else None
    if there is None:
        say(f"note: {slow}, and the program waits for it; Weft found no faster one with 1 GiB free: {OTHER}")
        return None
    say(f"{slow}: Weft records in {base}, and moves the run to its place at the end (--in-place prevents this)")
    return there


def warn_if_slow(run: Path) -> None:
    """Print a note if the run of a job step lies on a slow file system. Another folder cannot be chosen: the tasks of
    the step would not agree on it."""
    took = staging.measure_write_time(run)
    if took is not None and took >= staging.SLOW:
        say(f"note: {describe_slowness(run, took)}, and the program waits for it: {LOCAL}")


def describe_slowness(folder: Path, took: float) -> str:
    """Return the words that a folder is slow, and by how much."""
    return f"{folder} is on a slow file system ({took * 1e3:.1f} ms for 64 KiB)"


def move_to_place(staged: StagedRun | None, run: RunDirectory) -> bool:
    """Move the run to its place, and return whether that worked; otherwise the run stays, and Weft says so."""
    if staged is None:
        return True
    size, path = staged.count_bytes(), shorten_path(run.path)
    if size >= LONG:
        say(f"moving the run to {path} ({size / 1e6:,.0f} MB) ...")
    why = staged.move_to_place(run)
    if why is not None:
        local = staged.folder / run.path.name
        say(f"the run could not be moved to {path} ({why}): it is in {local}, and {path} is a link to it")
    return why is None
