"""What is put in order behind a run whose probes kept values."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from weft.debuginfo.addr2line import run_addr2line
from weft.errors import TraceError
from weft.native.headers.value_format import VALUES_HEADER, VALUES_PAGE
from weft.values.configuration import Configuration, read
from weft.values.folder import CONFIGURATION, FOLDER, LINES, SUFFIX, Recorded
from weft.values.process import Place, Process
from weft.values.template import template
from weft.values.trace import ValueTrace

MODULE: Final = "weft_probes.f90"


def conclude(run: Path, configuration: Path | None) -> Recorded:
    """Make the files small, look up lines, write the configuration if it is new. TraceError where they are damaged."""
    for path in sorted((run / FOLDER).glob(f"*{SUFFIX}")):
        with suppress(OSError):  # a longer file is no worse
            _trim(path)
    _resolve(run)
    trace = ValueTrace.open(run)
    notes = list(trace.problems)
    probes = sum(len(one.rows) for one in trace.processes)
    known = read(run / FOLDER / CONFIGURATION) if (run / FOLDER / CONFIGURATION).exists() else Configuration()
    if not known.source:
        text = template(trace)
        (run / FOLDER / CONFIGURATION).write_text(text)
        if configuration is not None and not configuration.exists():
            notes.append(_written(configuration, text))
    unknown = Configuration(known.rules, source=str(configuration)).unknown(trace.names())
    return Recorded(probes, len(trace.processes), notes, unknown)


def _written(path: Path, text: str) -> str:
    try:
        path.write_text(text)
    except OSError as error:
        return f"the configuration {path} cannot be written: {error.strerror}"
    return f"wrote {path}: edit it and give it again with --probes"


def _trim(path: Path) -> None:
    """Cut what a process that was killed had taken of the disk and not used."""
    header = np.fromfile(path, VALUES_HEADER, 1)
    size = VALUES_PAGE + int(header["used"][0]) if len(header) else path.stat().st_size
    if size < path.stat().st_size:
        with path.open("r+b") as file:
            file.truncate(size)


def _resolve(run: Path) -> None:
    """Look up lines that languages did not say, while the program is as it was."""
    wanted: dict[str, dict[int, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
    places: dict[tuple[str, int], Place] = {}
    for path in sorted((run / FOLDER).glob(f"*{SUFFIX}")):
        with suppress(TraceError):
            for place in Process(path, {}).places:
                places[path.name, place.number] = place
                for module, offset in place.callers:
                    wanted[module][offset].append((path.name, place.number))
    known = {module: run_addr2line(module, sorted(offsets), []) for module, offsets in wanted.items()}
    found: dict[str, dict[str, list[object]]] = defaultdict(dict)
    for (file, number), place in places.items():
        line = next(_lines_of(place, known), None)
        if line is not None:
            found[file][str(number)] = line
    if found:
        with suppress(OSError):
            (run / FOLDER / LINES).write_text(json.dumps(found))


def _lines_of(
    place: Place, known: dict[str, dict[str, list[tuple[str | None, int, str | None]]]]
) -> Iterator[list[object]]:
    """The frames of a place that are the program's own, the innermost first: the module of probes is not."""
    for module, offset in place.callers:
        for file, line, function in known.get(module, {}).get(str(offset), []):
            if file and line and Path(file).name != MODULE:
                yield [file, line, function or ""]
