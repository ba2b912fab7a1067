"""Finish the values of a run after its end: trim files, look up lines, write the configuration."""

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
from weft.values.configuration import Configuration, read_configuration
from weft.values.folder import CONFIGURATION, FOLDER, LINES, SUFFIX, RecordedValues
from weft.values.process import ProcessValues, ValuePlace
from weft.values.template import render_template
from weft.values.trace import ValueTrace

MODULE: Final = "weft_probes.f90"


def finalize_values(run: Path, configuration: Path | None) -> RecordedValues:
    """After a run, cut its files of values to their contents, look up source lines, and write a template of the
    configuration if it is new. Return what was recorded. TraceError if the files are damaged.
    """
    for path in sorted((run / FOLDER).glob(f"*{SUFFIX}")):
        with suppress(OSError):  # a longer file is no worse
            _trim_file(path)
    _look_up_lines(run)
    trace = ValueTrace.open(run)
    notes = list(trace.problems)
    probes = sum(len(one.rows) for one in trace.processes)
    known = (
        read_configuration(run / FOLDER / CONFIGURATION) if (run / FOLDER / CONFIGURATION).exists() else Configuration()
    )
    if not known.source:
        text = render_template(trace)
        (run / FOLDER / CONFIGURATION).write_text(text)
        if configuration is not None and not configuration.exists():
            notes.append(_write_template(configuration, text))
    unknown = Configuration(known.rules, source=str(configuration)).find_unknown_entries(trace.names_by_scope())
    return RecordedValues(probes, len(trace.processes), notes, unknown)


def _write_template(path: Path, text: str) -> str:
    """Write the template of a configuration, and return a sentence on what was done."""
    try:
        path.write_text(text)
    except OSError as error:
        return f"the configuration {path} cannot be written: {error.strerror}"
    return f"wrote {path} with all probes: edit it, and use it in the next run with --probes"


def _trim_file(path: Path) -> None:
    """Cut off the unused end of a file, which a killed process had reserved."""
    header = np.fromfile(path, VALUES_HEADER, 1)
    size = VALUES_PAGE + int(header["used"][0]) if len(header) else path.stat().st_size
    if size < path.stat().st_size:
        with path.open("r+b") as file:
            file.truncate(size)


def _look_up_lines(run: Path) -> None:
    """Look up the source lines of places that were recorded without one, and store them in the run. It is done at the
    end of a run, while the program is unchanged.
    """
    wanted: dict[str, dict[int, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
    places: dict[tuple[str, int], ValuePlace] = {}
    for path in sorted((run / FOLDER).glob(f"*{SUFFIX}")):
        with suppress(TraceError):
            for place in ProcessValues(path, {}).places:
                places[path.name, place.number] = place
                for module, offset in place.callers:
                    wanted[module][offset].append((path.name, place.number))
    known = {module: run_addr2line(module, sorted(offsets), []) for module, offsets in wanted.items()}
    found: dict[str, dict[str, list[object]]] = defaultdict(dict)
    for (file, number), place in places.items():
        line = next(_program_frames(place, known), None)
        if line is not None:
            found[file][str(number)] = line
    if found:
        with suppress(OSError):
            (run / FOLDER / LINES).write_text(json.dumps(found))


def _program_frames(
    place: ValuePlace, frames_by_module: dict[str, dict[str, list[tuple[str | None, int, str | None]]]]
) -> Iterator[list[object]]:
    """Yield [file, line, function] for each frame of a place that is in the program's own code, innermost first. The
    module of probes is left out. `frames_by_module`: module -> address as text -> frames.
    """
    for module, offset in place.callers:
        for file, line, function in frames_by_module.get(module, {}).get(str(offset), []):
            if file and line and Path(file).name != MODULE:
                yield [file, line, function or ""]
