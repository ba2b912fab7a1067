"""Read the sources of a run: statements, excerpts, what a line calls, and what has changed since."""

from __future__ import annotations

import os
import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from weft.base.json_files import read_json
from weft.base.lazy import dataclass
from weft.safety.runs import is_signed, read_own_facts
from weft.sources import changes, files, statement
from weft.sources.layout import INDEX, MAX_FILE, MAX_FILES, MAX_PACKED, SCHEMA, TEXTS, Excerpt, Statement
from weft.trace import Run, RunError, Trace
from weft.trace.rankfile import open_record

AROUND: Final = 6
"""Lines before and after a call's that views show."""
MAX_WIDTH: Final = 400
MAX_HELD: Final = 16 << 20
"""Characters of unpacked text that are held at a time."""
MAX_INDEX: Final = 8 << 20
_MAX_SPANS: Final = 10_000
_MAX_LINE: Final = 2**31
_WAITING_LOOP: Final = re.compile(r"\b(while|until)\b", re.IGNORECASE)


@dataclass(frozen=True)
class KeptFile:
    """What a run keeps of one file."""

    mark: changes.Mark
    spans: tuple[tuple[int, int], ...]
    """(first line, number of lines) of each stretch, in order."""
    at: int
    packed: int
    plain: int
    calls: dict[int, tuple[str, ...]]
    own: bool
    """Whether the file calls MPI itself."""


class Sources:
    """The sources of a run. For a run that has none, as older ones, the files of today are read."""

    def __init__(self, root: Path, *, here: bool = True, problem: Callable[[str], None] | None = None) -> None:
        """`here`: whether this machine ran the program, `problem`: whom to tell what cannot be read."""
        self._problem = problem or (lambda text: None)
        self._here = here
        self._root = root
        self._own = is_signed(read_own_facts(root) or {})
        self._files: dict[str, KeptFile] = {}
        self._texts: dict[str, list[str]] = {}
        self._held = 0
        self._colours: dict[tuple[str, int], Any] = {}
        self.kept = os.path.lexists(root / INDEX)
        """Whether the run has its sources, or at least what each line calls."""
        if self.kept:
            self._files = _read_index(root, self._problem)

    # Lines

    def lines(self, file: str, line: int) -> tuple[int, list[str]] | None:
        """Return (number of the first line, lines) of the kept part of a file that contains a line; None if the line is
        not known.
        """
        if not self.kept:
            return self._read_current(file, line)
        known = self._files.get(file)
        if known is None or line < 1:
            return None
        place = bisect_right(known.spans, line, key=lambda span: span[0]) - 1
        if place < 0 or line >= sum(known.spans[place]):
            return None
        first, count = known.spans[place]
        before = sum(n for _, n in known.spans[:place])
        found = self._read_kept_lines(file, known)[before : before + count]
        return (first, found) if line < first + len(found) else None

    def has_waiting_loop(self, file: str, line: int, around: int = 0) -> bool:
        """Return whether a line, or one within `around` lines, begins or ends a loop that waits for something."""
        first, lines = self.lines(file, line) or (0, [])
        near = lines[max(0, line - around - first) : line + around + 1 - first] if lines else []
        return any(_WAITING_LOOP.search(text) for text in near)

    def _read_current(self, file: str, line: int) -> tuple[int, list[str]] | None:
        """Return (1, lines) of a file as it is today. None if the file does not have the line, or if another user made
        the run.
        """
        if file not in self._texts:
            # No hash of the run proves that this text is the program's: what another's run names may be any file here.
            found = files.read_source(file) if self._own else None
            self._cache_lines(file, found.lines if found else [])
        return (1, self._texts[file]) if 0 < line <= len(self._texts[file]) else None

    def _read_kept_lines(self, file: str, known: KeptFile) -> list[str]:
        """Return all lines of a file that the run keeps; they are unpacked at the first call."""
        if file not in self._texts:
            self._cache_lines(file, self._unpack_text(file, known))
        return self._texts[file]

    def _cache_lines(self, file: str, lines: list[str]) -> None:
        """Cache the lines of a file; the cache is emptied first if it would become too large."""
        size = sum(map(len, lines))
        if self._held + size > MAX_HELD:
            self._texts.clear()
            self._colours.clear()
            self._held = 0
        self._texts[file] = lines
        self._held += size

    def _unpack_text(self, file: str, known: KeptFile) -> list[str]:
        """Return the lines of a file that the run keeps; [] if they are damaged."""
        try:
            with os.fdopen(open_record(self._root / TEXTS, self._root), "rb") as texts:
                texts.seek(known.at)
                unpack = zlib.decompressobj()
                data = unpack.decompress(texts.read(known.packed), known.plain + 1)
            if len(data) != known.plain or not unpack.eof:
                raise zlib.error("its length is not the recorded one")
        except (RunError, OSError, zlib.error) as error:
            self._problem(f"the source of {file} in {self._root / TEXTS} cannot be read: {error}")
            return []
        return data.decode("utf-8", "replace").removesuffix("\n").split("\n")

    # What views show

    def statement(self, file: str, line: int) -> Statement | None:
        """Return the statement of a call at a line, None if the run does not have it."""
        found = self.lines(file, line) if self.kept else None
        return statement.find_statement(found[1], found[0], line, file) if found else None

    def excerpt(self, file: str, line: int, around: int = AROUND) -> Excerpt | None:
        """Return the lines around a call, at least its whole statement; None if they are not known."""
        if not self.kept and not file.startswith("/"):
            return None
        found = self.lines(file, line)
        if found is None:
            return None
        start, lines = found
        of = statement.find_statement(lines, start, line, file)
        first = max(start, min(line - around, of.first if of else line))
        end = max(line + around, of.last if of else line) + 1
        shown = tuple(text[:MAX_WIDTH] for text in lines[first - start : end - start])
        return Excerpt(file, line, first, shown, self.kept)

    def colour_excerpt(self, excerpt: Excerpt) -> list[list[tuple[str, str]]]:
        """Return the lines of an excerpt as (class, text) pairs: see weft.sources.colour.CLASSES."""
        # Only pages have colours.
        from weft.sources import colour

        found = self.lines(excerpt.file, excerpt.line)
        if found is None:
            return colour.plain(excerpt.lines)
        key = excerpt.file, found[0]
        if key not in self._colours:
            self._colours[key] = colour.colour_lines(found[1], excerpt.file)
        made = self._colours[key]
        at = excerpt.first - found[0]
        return [colour.cut_line(line, MAX_WIDTH) for line in made[at : at + len(excerpt.lines)]]

    def excerpt_json(self, file: str, line: int, around: int = AROUND) -> dict[str, object] | None:
        """Return the lines around a line of source as JSON for the view's page; None if they are not known.

        {"file", "line", "first", "lines": [text, ...], "coloured": [[[class, text], ...], ...], "kept", "statement":
        {"first", "text"} or None}
        """
        found = self.excerpt(file, line, around)
        if found is None:
            return None
        of = self.statement(file, line)
        return {
            "file": file, "line": line, "first": found.first, "lines": list(found.lines),
            "coloured": [[list(part) for part in parts] for parts in self.colour_excerpt(found)], "kept": found.kept,
            "statement": of and {"first": of.first, "text": of.text},
        }  # fmt: skip

    def called_names(self, file: str, line: int) -> tuple[str, ...] | None:
        """Return the names that a line of Python calls, such as `comm.recv`; None if the source is not known."""
        if self.kept:
            known = self._files.get(file)
            return known.calls.get(line) if known else None
        found = self.lines(file, line)
        return statement.find_called_names(found[1], line - found[0], file) if found else None

    # What is no longer as it was

    @property
    def own(self) -> list[str]:
        """Return the files that call MPI themselves."""
        return [file for file, known in self._files.items() if known.own]

    def find_changes(self, wanted_files: Iterable[str] | None = None) -> list[changes.Change]:
        """Return which files are not what they were when the run was recorded. Without `wanted_files`, the files that
        call MPI are looked at.
        """
        wanted = (
            self.own if wanted_files is None else [file for file in dict.fromkeys(wanted_files) if file in self._files]
        )
        return [
            found for file in wanted if (found := changes.find_change(self._files[file].mark, self._here)) is not None
        ]

    def note(self, of: Iterable[str] | None = None) -> str | None:
        """Return a sentence on the files that have changed since the run; None if all are as they were."""
        return changes.describe_changes(self.find_changes(of))


_OF: WeakKeyDictionary[Run, Sources] = WeakKeyDictionary()


def sources_of(trace: Run) -> Sources:
    """Return the sources of a run, read at the first request."""
    trace = trace.origin
    found = _OF.get(trace)
    if found is None:
        here = changes.is_here(trace.run.get("host"))
        found = _OF[trace] = Sources(trace.path, here=here, problem=trace.add_problem)
    return found


def forget(trace: Trace) -> None:
    """Forget the sources of a run that are in memory, because they were just written anew."""
    _OF.pop(trace, None)


def _read_index(root: Path, problem: Callable[[str], None]) -> dict[str, KeptFile]:
    """Return path -> what a run keeps of that file. For a damaged entry, `problem` is called with a sentence, and the
    entries after it are left out.
    """
    problems: list[str] = []
    data = read_json(root, INDEX, SCHEMA, problems, limit=MAX_INDEX)
    entries = data.get("files")
    found: dict[str, KeptFile] = {}
    for entry in entries[:MAX_FILES] if isinstance(entries, list) else []:
        try:
            found[str(entry["path"])] = _read_entry(entry)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            problems.append(f"{root / INDEX} is damaged in part: some lines of source are not shown")
            break
    for text in problems:
        problem(text)
    return found


def _read_entry(entry: dict[str, Any]) -> KeptFile:
    """Return the kept file that an entry of the index describes. ValueError for an impossible entry."""
    spans = tuple((int(first), int(count)) for first, count in entry.get("spans", ())[:_MAX_SPANS])
    at, packed, plain = (int(entry.get(name, 0)) for name in ("at", "packed", "plain"))
    if not (0 <= at <= MAX_PACKED and 0 <= packed <= MAX_PACKED and 0 <= plain <= 3 * MAX_FILE):
        raise ValueError("a text that is too long")
    end = 1
    for first, count in spans:
        if not (end <= first < _MAX_LINE and 0 < count < _MAX_LINE):
            raise ValueError("segments that are out of order")
        end = first + count
    calls = {
        int(line): tuple(str(name) for name in names[: statement.MAX_CALLS])
        for line, names in entry.get("calls", {}).items()
    }
    doubt = entry.get("doubt")
    mark = changes.Mark(
        str(entry["path"]), str(entry["found"]), int(entry["size"]), int(entry["mtime_ns"]), str(entry["sha256"]),
        doubt if doubt in ("newer", "edited") else "",
    )  # fmt: skip
    return KeptFile(mark, spans, at, packed, plain, calls, entry.get("own") is True)
