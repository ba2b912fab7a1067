"""Merge what hosts gave into one run: their records, and the source lines that each host looked up."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weft.base.json_files import read_json, write_whole
from weft.launch import rank_processes
from weft.launch.rankfile import Header, read_header
from weft.launch.rundir import RunDirectory
from weft.safety.folders import read_regular
from weft.sources import variables
from weft.sources.layout import INDEX, MAX_PACKED, TEXTS
from weft.sources.layout import SCHEMA as SOURCES
from weft.trace.layout import PAGE, State
from weft.trace.packed import SUFFIX, Pack
from weft.trace.sites import SCHEMA as SITES

MODULES: Final = (("sites.json", SITES), (variables.NAME, variables.SCHEMA))


def move_records(run: RunDirectory, folders: Iterable[Path]) -> list[str]:
    """Move the records in hosts' folders into a run. A record that the run has already, but from another process, is
    not moved; return a sentence for each of these."""
    problems = []
    for folder in folders:
        for below in ("ranks", "halo"):
            for path in sorted((folder / below).glob("*")):
                target = run.path / below / path.name
                target.parent.mkdir(exist_ok=True)
                if target.exists() and is_of_another_process(path, target):
                    problems.append(
                        f"{path.name} of {folder.name} is left out, because the run has a file of this name from "
                        "another process"
                    )
                else:
                    path.replace(target)
    return problems


def is_of_another_process(path: Path, target: Path) -> bool:
    """Return whether two records were written by different processes."""
    one, other = rank_processes.read_rank_header(path), rank_processes.read_rank_header(target)
    return one is None or (
        other is not None and (one.host, one.pid, one.started_ns) != (other.host, other.pid, other.started_ns)
    )


def read_run_headers(run: RunDirectory) -> dict[str, Header]:
    """Return the headers of a run's records by their names, including packed records."""
    files = sorted(run.ranks.glob("*.weft"))
    packed = [one for path in sorted(run.ranks.glob(f"*{SUFFIX}")) for one in Pack(path, run.path).read_records([])]
    found = {one.name: read_header(one.beginning.ljust(PAGE, b"\0")) for one in packed}
    found |= {path.name: rank_processes.read_rank_header(path) for path in files}
    return {name: header for name, header in found.items() if header is not None}


def infer_ending(headers: Mapping[str, Header]) -> str:
    """Return how a run ended, judged by its records alone, as nobody saw its end."""
    if any(header.state is State.ABORTED for header in headers.values()):
        return "crashed"
    return "finished" if headers and all(header.over for header in headers.values()) else "running"


# What was looked up


def merge_locations(run: Path, folders: Iterable[Path], problems: str | None) -> str | None:
    """Add the source lines that the hosts in `folders` looked up to those of this host. Return the sentences of
    `problems` (joined by `; `) that name no module which a host knows, None if none is left."""
    added: set[str] = set()
    for folder in folders:
        for name, schema in MODULES:
            if (folder / name).exists():
                added |= merge_modules(run, folder, name, schema)
        if (folder / INDEX).exists():
            merge_sources(run, folder)
    left = [text for text in (problems or "").split("; ") if text and not any(f" {path} " in text for path in added)]
    return "; ".join(left) or None


def merge_modules(run: Path, folder: Path, name: str, schema: str) -> set[str]:
    """Add the modules in the file `name` of a host's folder to the same file of the run. Return the paths of all
    modules that the file then has."""
    said: list[str] = []
    here = read_json(run, name, schema, said) if (run / name).exists() else {}
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for one in [*read_objects(here, "modules"), *read_objects(read_json(folder, name, schema, said), "modules")]:
        key = str(one.get("path")), str(one.get("build_id"))
        if key in known:
            known[key] = merge_module(known[key], one)
        else:
            known[key] = one
    if known:
        with suppress(OSError):
            write_whole(run / name, json.dumps({"schema": schema, "modules": list(known.values())}).encode())
    return {path for path, _ in known}


def read_objects(facts: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    """Return the objects in a list of a JSON file, without entries of other types."""
    found = facts.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def merge_module(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return one description of a module from two: their tables by address are united."""
    return {
        name: {**other[name], **value} if isinstance(value, dict) and isinstance(other.get(name), dict) else value
        for name, value in {**other, **one}.items()
    }


def merge_sources(run: Path, folder: Path) -> None:
    """Add the source files of a host that were not found on this one."""
    said: list[str] = []
    files = read_objects(read_json(run, INDEX, SOURCES, said), "files") if (run / INDEX).exists() else []
    known = {str(one.get("path")) for one in files}
    texts = read_regular(run / TEXTS, run) if (run / TEXTS).exists() else b""
    new = [
        one
        for one in read_objects(read_json(folder, INDEX, SOURCES, said), "files")
        if str(one.get("path")) not in known
    ]
    if not new or not is_within_limit(folder / TEXTS):
        return
    theirs = read_regular(folder / TEXTS, folder) if (folder / TEXTS).exists() else b""
    for one in new:
        at, size = one.get("at", 0), one.get("packed", 0)
        text = theirs[at : at + size] if isinstance(at, int) and isinstance(size, int) and at >= 0 < size else b""
        if text and len(texts) + len(text) <= MAX_PACKED:
            one["at"] = len(texts)
            texts += text
        else:
            for name in ("at", "packed", "plain", "spans"):
                one.pop(name, None)
    with suppress(OSError):
        write_whole(run / TEXTS, texts)
        write_whole(run / INDEX, json.dumps({"schema": SOURCES, "files": [*files, *new]}).encode())


def is_within_limit(path: Path) -> bool:
    """Whether a file of texts is no larger than any run's."""
    return not path.exists() or path.stat().st_size <= MAX_PACKED
