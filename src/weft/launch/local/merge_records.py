"""What hosts gave is put into one run: records, and what each host looked up of their places."""

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


def records(run: RunDirectory, folders: Iterable[Path]) -> list[str]:
    """Move the records of hosts into a run; returns sentences on those that were there already and are others."""
    problems = []
    for folder in folders:
        for below in ("ranks", "halo"):
            for path in sorted((folder / below).glob("*")):
                target = run.path / below / path.name
                target.parent.mkdir(exist_ok=True)
                if target.exists() and of_another(path, target):
                    problems.append(f"{path.name} of {folder.name} is there already, from another process: left out")
                else:
                    path.replace(target)
    return problems


def of_another(path: Path, target: Path) -> bool:
    """Whether two records are of two processes."""
    one, other = rank_processes.read(path), rank_processes.read(target)
    return one is None or (
        other is not None and (one.host, one.pid, one.started_ns) != (other.host, other.pid, other.started_ns)
    )


def headers_of(run: RunDirectory) -> dict[str, Header]:
    """The headers of a run's records, by their names; those that were packed meanwhile, too."""
    files = sorted(run.ranks.glob("*.weft"))
    packed = [one for path in sorted(run.ranks.glob(f"*{SUFFIX}")) for one in Pack(path, run.path).ranks([])]
    found = {one.name: read_header(one.beginning.ljust(PAGE, b"\0")) for one in packed}
    found |= {path.name: rank_processes.read(path) for path in files}
    return {name: header for name, header in found.items() if header is not None}


def ended(headers: Mapping[str, Header]) -> str:
    """How a run ended that nobody saw the end of: by its records alone."""
    if any(header.state is State.ABORTED for header in headers.values()):
        return "crashed"
    return "finished" if headers and all(header.over for header in headers.values()) else "running"


# What was looked up


def places(run: Path, folders: Iterable[Path], problems: str | None) -> str | None:
    """Add what the hosts looked up to what was looked up here; returns what stays unresolved of `problems`."""
    added: set[str] = set()
    for folder in folders:
        for name, schema in MODULES:
            if (folder / name).exists():
                added |= add_modules(run, folder, name, schema)
        if (folder / INDEX).exists():
            add_sources(run, folder)
    left = [text for text in (problems or "").split("; ") if text and not any(f" {path} " in text for path in added)]
    return "; ".join(left) or None


def add_modules(run: Path, folder: Path, name: str, schema: str) -> set[str]:
    """Add the modules of a host's file; returns their paths."""
    said: list[str] = []
    here = read_json(run, name, schema, said) if (run / name).exists() else {}
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for one in [*listed(here, "modules"), *listed(read_json(folder, name, schema, said), "modules")]:
        key = str(one.get("path")), str(one.get("build_id"))
        if key in known:
            known[key] = joined(known[key], one)
        else:
            known[key] = one
    if known:
        with suppress(OSError):
            write_whole(run / name, json.dumps({"schema": schema, "modules": list(known.values())}).encode())
    return {path for path, _ in known}


def listed(facts: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    """The objects of a list in a file."""
    found = facts.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Both modules in one: what they hold by place is put together."""
    return {
        name: {**other[name], **value} if isinstance(value, dict) and isinstance(other.get(name), dict) else value
        for name, value in {**other, **one}.items()
    }


def add_sources(run: Path, folder: Path) -> None:
    """Add the source files of a host that were not found here."""
    said: list[str] = []
    files = listed(read_json(run, INDEX, SOURCES, said), "files") if (run / INDEX).exists() else []
    known = {str(one.get("path")) for one in files}
    texts = read_regular(run / TEXTS, run) if (run / TEXTS).exists() else b""
    new = [one for one in listed(read_json(folder, INDEX, SOURCES, said), "files") if str(one.get("path")) not in known]
    if not new or not fits(folder / TEXTS):
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


def fits(path: Path) -> bool:
    """Whether a file of texts is no larger than any run's."""
    return not path.exists() or path.stat().st_size <= MAX_PACKED
