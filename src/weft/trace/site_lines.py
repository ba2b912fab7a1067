"""Looks up the lines of a run's native call sites, once, on the machine that ran the program."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from weft.base.json_files import write_whole
from weft.debuginfo.addr2line import lines_of
from weft.debuginfo.elf import read_build_id
from weft.trace.definitions import ModuleDefinition, SiteDefinition
from weft.trace.layout import Def
from weft.trace.run import Trace
from weft.trace.sites import SCHEMA, HasSites, is_start_library


def resolve_sites(run: Trace | str | os.PathLike[str]) -> list[str]:
    """Look up the source lines of a run's native call sites and write them to RUN/sites.json. Return sentences on sites
    that stay unresolved, with the reason.

    To be called on the machine that ran the program, soon after: a module is believed only while its build id is the
    recorded one.
    """
    trace = run if isinstance(run, Trace) else Trace.open(run)
    problems: list[str] = []
    modules: list[dict[str, object]] = []
    for (path, build_id), offsets in sorted(_collect_offsets(trace).items()):
        reason = why_module_differs(trace, path, build_id)
        sites = {} if reason else lines_of(path, build_id, sorted(offsets), problems)
        if reason:
            problems.append(_describe_unresolved(path, reason))
        if sites:
            modules.append({"path": path, "build_id": build_id, "sites": sites})
    if modules:
        _write_json(trace.path / "sites.json", {"schema": SCHEMA, "modules": modules}, problems)
        trace.reload_sites()
    return problems


def explain_unknown_modules(trace: Trace) -> list[str]:
    """Return a sentence about each program file or library for which no lines are known: why the file found is not the
    one that ran.
    """
    unknown = {(path, build) for path, build in _collect_offsets(trace) if not trace.has_lines_of(path, build)}
    reasons = [(path, why_module_differs(trace, path, build)) for path, build in sorted(unknown)]
    return [_describe_unresolved(path, reason) for path, reason in reasons if reason]


def _describe_unresolved(path: str, reason: str) -> str:
    return f"calls in {path} have no source lines: {reason}"


def _collect_offsets(trace: Trace) -> dict[tuple[str, str], set[int]]:
    """Return the offsets of all native call sites, by module (path, build id)."""
    wanted: dict[tuple[str, str], set[int]] = defaultdict(set)
    tasks = [rank.tasks for rank in trace.ranks if rank.tasks is not None]
    placed: list[HasSites] = [*trace.ranks, *tasks]
    for rank in placed:
        for definition in rank.definitions.all(Def.SITE):
            for module, offset in () if definition.code else _visible_places(rank, definition):
                wanted[module.path, module.build_id].add(offset)
        for ending in rank.definitions.endings:
            for number, offset in ending.native:
                of = rank.definitions.module(number)
                if of is not None and of.path.startswith("/"):
                    wanted[of.path, of.build_id].add(offset)
    return wanted


def _visible_places(rank: HasSites, definition: SiteDefinition) -> Iterator[tuple[ModuleDefinition, int]]:
    """Yield (module, offset) of the native place of a call and of its callers, innermost first. They end before the
    first caller in a library that starts programs. Modules without an absolute path are left out.
    """
    for number, offset in ((definition.module, definition.offset), *definition.callers):
        module = rank.definitions.module(number) if number else None
        if module is None:
            continue
        if number != definition.module and is_start_library(module.path):
            return
        if module.path.startswith("/"):
            yield module, offset


def why_module_differs(trace: Trace, path: str, build_id: str) -> str | None:
    """Return, in words, why the file at `path` is not the module that ran; None if it is."""
    try:
        present = read_build_id(Path(path))
        changed = Path(path).stat().st_mtime_ns
    except OSError as error:
        return f"the file is not here ({error.strerror})"
    except ValueError as error:
        return str(error)
    if present != build_id:
        return "the file was rebuilt after the run"
    started = min((r.header.start.realtime_ns for r in trace.ranks if r.header), default=0)
    if not build_id and started and changed > started:
        return "the file changed since the run, and has no build id (link with -Wl,--build-id)"
    return None


def _write_json(path: Path, data: dict[str, object], problems: list[str]) -> None:
    """Write a JSON file whole or not at all. If that fails, a sentence is added to `problems`."""
    try:
        write_whole(path, json.dumps(data).encode())
    except OSError as error:
        problems.append(f"{path} cannot be written: {error.strerror}")
