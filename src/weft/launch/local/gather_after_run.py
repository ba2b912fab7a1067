"""A run is gathered after it has ended: from this host's own disk, or from folders that somebody copied."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from weft.base.json_files import read_json, write_whole
from weft.base.lazy import dataclass
from weft.errors import UsageError, WeftError
from weft.launch import finish, missing_ranks, rundir
from weft.launch.local import merge_records, pack
from weft.launch.local.hosts import INCOMING
from weft.launch.local.rank_setup import tasks_alive
from weft.launch.rundir import RUN_JSON, SCHEMA, RunDirectory
from weft.launch.shared_run import locked
from weft.safety.folders import read_regular
from weft.safety.runs import SIGNATURE, is_signed

FUNCTIONS: Final = "functions.json"


@dataclass
class Gathered:
    """What came of it."""

    ranks: int
    """Records that are in the run now."""
    hosts: list[dict[str, Any]]
    """What came from each, as run.json keeps it."""
    missing: list[str]
    """Sentences on ranks that left no record."""
    problems: list[str] = field(default_factory=list)


def of_this_host(path: Path) -> Gathered:
    """Pack what this host holds of a run with --local, and put together what is there: as a task of a job step.

    UsageError for what is not such a run, or still runs here.
    """
    if not (path / RUN_JSON).is_file():
        raise UsageError(
            f"{path} is not a run that this host sees: copy the hosts' folders to where it is, and say "
            "`weft gather RUN HOSTDIR...`"
        )
    refuse_others(path)
    folder = rundir.facts_of(path).get("local")
    if not isinstance(folder, str):
        raise UsageError(f"{path} was not recorded with --local: name the folders that you copied from its hosts")
    own = Path(folder)
    if not may_be_of_weft(own):
        raise UsageError(f"{path / RUN_JSON} names {folder}, which is not a folder that --local made: it is let alone")
    host = os.uname().nodename
    if tasks_alive(own):
        raise UsageError(f"the run still goes on here: {own} is being written")
    if pack.files_of(own):
        finish.tidy(sorted((own / "ranks").glob("*.weft")))
        into_run(own, host, path)
    gathered = packs(path)
    shutil.rmtree(own, ignore_errors=True)
    return gathered


def refuse_others(path: Path) -> None:
    """UsageError for a run of another user, or with links in the place of its folders: they could lead anywhere."""
    run = Path(os.path.realpath(path))
    for folder in (run, *(run / name for name in ("ranks", "halo", pack.FOLDER, INCOMING))):
        with suppress(FileNotFoundError, NotADirectoryError):
            status = folder.lstat()
            if status.st_uid != os.geteuid():
                raise UsageError(
                    f"{folder} belongs to another user, who could lead what is gathered elsewhere: copy the run (cp -r)"
                )
            if stat.S_ISLNK(status.st_mode):
                raise UsageError(f"{folder} is a link: not followed. Copy the run whole (cp -rL)")


def may_be_of_weft(folder: Path) -> bool:
    """Whether a folder has a name such as --local makes, which nobody can foretell, and is this user's, or gone.

    What run.json names is emptied and removed, and run.json may be of anybody.
    """
    if not re.fullmatch(r".+-[0-9a-f]{16}", folder.name) or not folder.is_absolute():
        return False
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return True
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def into_run(own: Path, host: str, path: Path) -> Path:
    """Pack what a host holds into the folder of the run. WeftError where that cannot be written."""
    target = path / pack.FOLDER / (host + pack.SUFFIX)
    try:
        target.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise rundir.unwritable(path, error) from error
    pack.write(own, host, target)
    return target


def packs(path: Path) -> Gathered:
    """Put together what hosts have packed into the run, one after the other."""
    try:
        with locked(path / ".gathering"):
            there = [] if (path / pack.FOLDER).is_symlink() else sorted((path / pack.FOLDER).glob(f"*{pack.SUFFIX}"))
            gathered = put_together(path, there)
            for one in there:
                one.unlink()
    except OSError as error:
        raise rundir.unwritable(path, error) from error
    with suppress(OSError):
        (path / pack.FOLDER).rmdir()
    return gathered


def copied(path: Path, sources: Sequence[Path]) -> Gathered:
    """Put folders and packs that were copied from hosts into a run. They stay as they are."""
    for source in sources:
        if not source.exists():
            raise UsageError(f"there is no {source}")
    refuse_others(path)
    if not (path / RUN_JSON).exists():
        make(path, sources)
    return put_together(path, [source for one in sources for source in within(one, rundir.facts_of(path))])


def within(source: Path, facts: dict[str, Any]) -> list[Path]:
    """What of a copied folder is meant: itself, or the run's own folder in it, where all of --local was copied."""
    own = source / Path(str(facts.get("local") or ".")).name
    with suppress(OSError):  # a name that no folder can have
        return [own if source.is_dir() and own.is_dir() else source]
    return [source]


def make(path: Path, sources: Sequence[Path]) -> None:
    """Make a run of what its hosts know of it. UsageError where the folder holds anything else."""
    rundir.refuse(path)
    problems: list[str] = []
    known = (read_json(one, RUN_JSON, SCHEMA, problems, exact=True) for one in sources if (one / RUN_JSON).exists())
    facts = next((one for one in known if one), None)
    if facts is None:  # whose records they are nothing tells: the run is not signed
        facts = {name: value for name, value in rundir.first_facts([], "trace").items() if name != SIGNATURE}
    tables = (one / FUNCTIONS for one in sources if (one / FUNCTIONS).exists())
    table = next((one for one in tables if pack.is_plain(one)), None)
    if table is None:
        raise UsageError(f"{path} is not a run, and none of the folders has a {FUNCTIONS} to make one with")
    (path / "ranks").mkdir(parents=True)
    write_whole(path / FUNCTIONS, read_regular(table))
    RunDirectory(path, {**facts, "ended": "running"}).write()


def put_together(path: Path, sources: Sequence[Path]) -> Gathered:
    """Take in what each source holds, checked; look up places; say in run.json what is there now."""
    run = RunDirectory(path.absolute(), dict(rundir.facts_of(path)))
    incoming = run.path / INCOMING
    try:
        taken = [taken_from(source, incoming / str(k)) for k, source in enumerate(sources)]
        run.ranks.mkdir(exist_ok=True)
        folders = [one.folder for one in taken]
        problems = merge_records.records(run, folders)
        came = [one.facts() for one in taken if one.names]
        headers = merge_records.headers_of(run)
        finish.tidy(sorted(run.ranks.glob("*.weft")))
        run.facts |= facts_of(run, came, headers)
        run.write()
        unresolved = None
        if headers:
            texts, ours = bool(run.facts.get("sources", True)), is_signed(run.facts)
            unresolved = finish.resolve_sites(run.path, texts=texts, ours=ours)
        if (text := merge_records.places(run.path, folders, unresolved)) is not None:
            problems.append(text)
    except OSError as error:
        raise rundir.unwritable(path, error) from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return Gathered(len(headers), came, missing_ranks.lines(headers, run.facts.get("lost") or ()), problems)


def taken_from(source: Path, folder: Path) -> pack.Taking:
    """What a folder or a pack holds. WeftError where it is neither, or damaged."""
    if source.is_file():
        return pack.read(source, folder)
    if not pack.files_of(source):
        raise WeftError(f"{source} holds no records (ranks/*.weft)")
    return pack.copy(source, source.name, folder)


def known(facts: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The hosts that run.json names as lost, or as those that gave their records: what fits, as others may write it."""
    said = facts.get(name)
    hosts = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    found = []
    for one in hosts:
        ranks = one.get("ranks", [])
        if isinstance(one.get("host"), str) and isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
            found.append({**one, "ranks": ranks, "why": str(one.get("why", ""))} if name == "lost" else one)
    return found


def facts_of(run: RunDirectory, came: list[dict[str, Any]], headers: dict[str, Any]) -> dict[str, Any]:
    """What run.json says now: who gave what, what is still lost, and how the run ended where nobody said it."""
    there = {int(match) for name in headers if (match := name.partition("-")[2].removesuffix(".weft")).isdigit()}
    given = {each["host"] for each in came}
    lost = [one for one in known(run.facts, "lost") if one["host"] not in given]
    lost = [one for one in lost if not set(one["ranks"]) <= there or not one["ranks"]]
    before = [one for one in known(run.facts, "hosts") if one["host"] not in given]
    facts: dict[str, Any] = {"ranks": len(headers), "hosts": [*before, *came], "lost": lost}
    if run.facts.get("ended") in (None, "running"):
        facts |= {"ended": merge_records.ended(headers), "finished": run.facts.get("finished") or rundir.now()}
    return facts
