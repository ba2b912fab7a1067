"""Gather a run after it has ended (`weft gather`): from this host's own disk, or from folders that the user copied."""

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
from weft.launch.local.rank_setup import has_living_ranks
from weft.launch.rundir import RUN_JSON, SCHEMA, RunDirectory
from weft.launch.shared_run import open_locked
from weft.safety.folders import read_regular
from weft.safety.runs import SIGNATURE, is_signed

FUNCTIONS: Final = "functions.json"


@dataclass
class GatherResult:
    """What a gathering brought into the run."""

    ranks: int
    """Records that are in the run now."""
    hosts: list[dict[str, Any]]
    """What came from each, as run.json keeps it."""
    missing: list[str]
    """Sentences on ranks that left no record."""
    problems: list[str] = field(default_factory=list)


def gather_this_host(path: Path) -> GatherResult:
    """Put the records of a run with --local that lie on this host into the run, and merge all packs that hosts have
    put there. Return what was gathered.

    Raises UsageError if `path` is not such a run, or ranks of it still run here.
    """
    if not (path / RUN_JSON).is_file():
        raise UsageError(
            f"this host does not see the run {path}: copy the folders of the hosts to a host that does, and run `weft "
            "gather RUN HOSTDIR...` there"
        )
    refuse_foreign_run(path)
    folder = rundir.read_facts(path).get("local")
    if not isinstance(folder, str):
        raise UsageError(
            f"{path} was not recorded with --local: name the folders that you copied from its hosts after RUN"
        )
    own = Path(folder)
    if not is_own_local_folder(own):
        raise UsageError(f"{path / RUN_JSON} names {folder}, which --local did not make: Weft leaves it alone")
    host = os.uname().nodename
    if has_living_ranks(own):
        raise UsageError(f"the run is still being recorded on this host ({own}): gather when it has ended")
    if pack.list_pack_files(own):
        finish.trim_records(sorted((own / "ranks").glob("*.weft")))
        pack_into_run(own, host, path)
    gathered = gather_packs(path)
    shutil.rmtree(own, ignore_errors=True)
    return gathered


def refuse_foreign_run(path: Path) -> None:
    """Raise UsageError for a run of another user, or one that contains links in place of folders: to write into it
    could change files anywhere."""
    run = Path(os.path.realpath(path))
    for folder in (run, *(run / name for name in ("ranks", "halo", pack.FOLDER, INCOMING))):
        with suppress(FileNotFoundError, NotADirectoryError):
            status = folder.lstat()
            if status.st_uid != os.geteuid():
                raise UsageError(
                    f"{folder} belongs to another user, who could redirect what Weft writes there: copy the run to "
                    "a folder of yours (cp -r) and gather into the copy"
                )
            if stat.S_ISLNK(status.st_mode):
                raise UsageError(
                    f"{folder} is a link, which Weft does not follow: copy the run with what its links lead to (cp -rL)"
                )


def is_own_local_folder(folder: Path) -> bool:
    """Return whether a folder has a name as --local makes it, and belongs to this user or does not exist.

    The folder that run.json names is emptied and removed, and run.json may come from anybody.
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


def pack_into_run(own: Path, host: str, path: Path) -> Path:
    """Pack the folder of this host (`own`) into one file in the run `path`, and return the file's path. WeftError if
    it cannot be written."""
    target = path / pack.FOLDER / (host + pack.SUFFIX)
    try:
        target.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise rundir.unwritable_error(path, error) from error
    pack.write_pack(own, host, target)
    return target


def gather_packs(path: Path) -> GatherResult:
    """Merge all packs of records that hosts have put into the run's folder, and return what was gathered. A lock lets
    one process do so at a time."""
    try:
        with open_locked(path / ".gathering"):
            there = [] if (path / pack.FOLDER).is_symlink() else sorted((path / pack.FOLDER).glob(f"*{pack.SUFFIX}"))
            gathered = gather_sources(path, there)
            for one in there:
                one.unlink()
    except OSError as error:
        raise rundir.unwritable_error(path, error) from error
    with suppress(OSError):
        (path / pack.FOLDER).rmdir()
    return gathered


def gather_copies(path: Path, sources: Sequence[Path]) -> GatherResult:
    """Merge folders and packs that the user copied from hosts into a run, and return what was gathered. The copies are
    not changed."""
    for source in sources:
        if not source.exists():
            raise UsageError(f"there is no {source}")
    refuse_foreign_run(path)
    if not (path / RUN_JSON).exists():
        create_run(path, sources)
    return gather_sources(
        path, [source for one in sources for source in find_run_folders(one, rundir.read_facts(path))]
    )


def find_run_folders(source: Path, facts: dict[str, Any]) -> list[Path]:
    """Return a list with the folder of the run in `source`, a copy from a host. If the whole folder of --local was
    copied, the run is the folder in it that has the name from `facts`; otherwise the copy itself is the run."""
    own = source / Path(str(facts.get("local") or ".")).name
    with suppress(OSError):  # a name that no folder can have
        return [own if source.is_dir() and own.is_dir() else source]
    return [source]


def create_run(path: Path, sources: Sequence[Path]) -> None:
    """Make a run folder from what the folders of its hosts contain: run.json and the table of functions. UsageError if
    `path` holds anything else, or no folder has the table."""
    rundir.refuse_used_folder(path)
    problems: list[str] = []
    known = (read_json(one, RUN_JSON, SCHEMA, problems, exact=True) for one in sources if (one / RUN_JSON).exists())
    facts = next((one for one in known if one), None)
    if facts is None:  # whose records they are nothing tells: the run is not signed
        facts = {name: value for name, value in rundir.make_first_facts([], "trace").items() if name != SIGNATURE}
    tables = (one / FUNCTIONS for one in sources if (one / FUNCTIONS).exists())
    table = next((one for one in tables if pack.is_regular_file(one)), None)
    if table is None:
        raise UsageError(
            f"{path} is not a run, and none of the folders has the {FUNCTIONS} of one: copy that file, too, and name "
            "its folder"
        )
    (path / "ranks").mkdir(parents=True)
    write_whole(path / FUNCTIONS, read_regular(table))
    RunDirectory(path, {**facts, "ended": "running"}).write()


def gather_sources(path: Path, sources: Sequence[Path]) -> GatherResult:
    """Check the records in `sources` (folders and packs of hosts), and move them into the run. Then look up the source
    lines of their calls, and update run.json. Return what was gathered."""
    run = RunDirectory(path.absolute(), dict(rundir.read_facts(path)))
    incoming = run.path / INCOMING
    try:
        taken = [receive_source(source, incoming / str(k)) for k, source in enumerate(sources)]
        run.ranks.mkdir(exist_ok=True)
        folders = [one.folder for one in taken]
        problems = merge_records.move_records(run, folders)
        came = [one.facts() for one in taken if one.names]
        headers = merge_records.read_run_headers(run)
        finish.trim_records(sorted(run.ranks.glob("*.weft")))
        run.facts |= describe_gathered_run(run, came, headers)
        run.write()
        unresolved = None
        if headers:
            texts, ours = bool(run.facts.get("sources", True)), is_signed(run.facts)
            unresolved = finish.resolve_sites(run.path, with_source_texts=texts, is_own_run=ours)
        if (text := merge_records.merge_locations(run.path, folders, unresolved)) is not None:
            problems.append(text)
    except OSError as error:
        raise rundir.unwritable_error(path, error) from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return GatherResult(
        len(headers), came, missing_ranks.describe_missing_ranks(headers, run.facts.get("lost") or ()), problems
    )


def receive_source(source: Path, folder: Path) -> pack.PackReceiver:
    """Unpack or copy the records of a host into `folder`, and return their receiver. WeftError if `source` is neither a
    pack nor a host's folder, or is damaged.
    """
    if source.is_file():
        return pack.unpack_file(source, folder)
    if not pack.list_pack_files(source):
        raise WeftError(f"{source} holds no records (ranks/*.weft)")
    return pack.copy_pack(source, source.name, folder)


def read_host_entries(facts: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the well-formed hosts in run.json's list `name` (`lost` or `hosts`): the file may come from anybody."""
    said = facts.get(name)
    hosts = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    found = []
    for one in hosts:
        ranks = one.get("ranks", [])
        if isinstance(one.get("host"), str) and isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
            found.append({**one, "ranks": ranks, "why": str(one.get("why", ""))} if name == "lost" else one)
    return found


def describe_gathered_run(run: RunDirectory, came: list[dict[str, Any]], headers: dict[str, Any]) -> dict[str, Any]:
    """Return run.json's facts after gathering: which hosts gave records, which are still lost, how the run ended."""
    there = {int(match) for name in headers if (match := name.partition("-")[2].removesuffix(".weft")).isdigit()}
    given = {each["host"] for each in came}
    lost = [one for one in read_host_entries(run.facts, "lost") if one["host"] not in given]
    lost = [one for one in lost if not set(one["ranks"]) <= there or not one["ranks"]]
    before = [one for one in read_host_entries(run.facts, "hosts") if one["host"] not in given]
    facts: dict[str, Any] = {"ranks": len(headers), "hosts": [*before, *came], "lost": lost}
    if run.facts.get("ended") in (None, "running"):
        facts |= {
            "ended": merge_records.infer_ending(headers),
            "finished": run.facts.get("finished") or rundir.current_time(),
        }
    return facts
