"""The values of a run while it is recorded: what the ranks are told before, and what is put in order behind them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np

from weft.errors import TraceError, UsageError, WeftError
from weft.native.headers.value_format import VALUES_HEADER, VALUES_PAGE
from weft.native.shared import NATIVE
from weft.plain import dataclass
from weft.trace.lines import addr2line
from weft.values.configuration import Configuration, read
from weft.values.template import template
from weft.values.trace import FOLDER, LINES, SUFFIX, Place, Process, ValueTrace

PLAN: Final = "plan"
CONFIGURATION: Final = "probes.toml"
MODULE: Final = "weft_probes.f90"
INCLUDE: Final = Path(__file__).parent / "native" / "include"


def begin(run: Path, configuration: Path | None) -> dict[str, str]:
    """Make room in a run; return what the ranks need in their environment.

    `configuration`: where what to keep is said; all is kept without, and where there is no such file yet.
    UsageError where it is wrong, WeftError where there is no room.
    """
    library = next(NATIVE.glob("_values*.so"), None)
    if library is None:
        if configuration is not None:
            raise WeftError("what keeps values is not built (python setup.py build_ext --inplace)")
        return {}
    known = read(configuration) if configuration is not None and configuration.exists() else Configuration()
    try:
        (run / FOLDER).mkdir()
        (run / FOLDER / PLAN).write_text(known.plan())
        if known.source and configuration is not None:
            (run / FOLDER / CONFIGURATION).write_bytes(configuration.read_bytes())
    except OSError as error:
        raise WeftError(f"cannot write the values of the run: {error}") from error
    return {"WEFT_VALUES": str(run.absolute() / FOLDER), "WEFT_VALUES_LIBRARY": str(library)}


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run kept."""

    probes: int
    processes: int
    notes: list[str]
    """What the user should know."""
    unknown: list[str]
    """Entries of the configuration that name nothing of the program."""


def end(run: Path, configuration: Path | None) -> Recorded:
    """The job has ended: make its files small, look up lines, write the configuration if it is new."""
    folder = run / FOLDER
    files = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    for path in files:
        with suppress(OSError):  # a longer file is no worse
            _trim(path)
    notes = []
    if not files:
        discard(run)
        if configuration is not None:
            notes.append(f"--probes {configuration}: the program has no probes (weft.probe, weft.h, module weft)")
        return Recorded(0, 0, notes, [])
    try:
        return _ended(run, configuration)
    except WeftError as error:
        return Recorded(0, len(files), [f"the values of the run cannot be read: {error}"], [])


def _ended(run: Path, configuration: Path | None) -> Recorded:
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


def discard(run: Path) -> None:
    """Take away what was made for a run that kept nothing."""
    with suppress(OSError):
        for name in (PLAN, CONFIGURATION):
            (run / FOLDER / name).unlink(missing_ok=True)
        (run / FOLDER).rmdir()


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
    known = {module: addr2line(module, sorted(offsets), []) for module, offsets in wanted.items()}
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


def check(configuration: Path | None) -> None:
    """UsageError where a configuration is wrong, before anything slow is done."""
    if configuration is None:
        return
    if configuration.exists():
        read(configuration)
    elif not configuration.absolute().parent.is_dir():
        raise UsageError(f"--probes {configuration}: there is no folder {configuration.absolute().parent}")
