"""Read by a Python rank at its start: keeps values at lines that `weft run --watch` names, and never stops it."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_MONITORING: Any = getattr(sys, "monitoring", None)
"""From Python 3.12 on."""


def _lines(watches: list[dict[str, Any]]) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """Watches by file name and line."""
    found: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for one in watches:
        if one["file"].endswith((".py", ".pyw", ".ipynb")):
            found.setdefault(Path(one["file"]).name, {}).setdefault(one["line"], []).append(one)
    return found


class _Watcher:
    """Evaluates expressions before their lines run."""

    def __init__(self, watches: list[dict[str, Any]]) -> None:
        self.lines = _lines(watches)
        self.known: dict[CodeType, Any] = {}  # by code: line -> watches with their compiled expressions
        self.busy = threading.local()

    def of(self, code: CodeType) -> Any:
        """The watches of a piece of code."""
        if code not in self.known:
            self.known[code] = self.found(code)
        return self.known[code]

    def found(self, code: CodeType) -> Any:
        """The watches of a piece of code that is new."""
        wanted = self.lines.get(Path(code.co_filename).name)
        if not wanted:
            return None
        made: dict[int, list[Any]] = {}
        for line in {line for *_, line in code.co_lines() if line is not None} & set(wanted):
            for one in wanted[line]:
                if f"/{code.co_filename}".endswith(f"/{one['file']}"):
                    texts = [compile(one["text"], "--watch", "eval")]
                    texts += [compile("(" + one["lower"] + ",)", "--watch", "eval")] if one["of"] else []
                    made.setdefault(line, []).append((one, texts))
        return made or None

    def keep(self, frame: FrameType, line: int) -> None:
        """Keep what is watched at a line."""
        if getattr(self.busy, "now", False):
            return
        self.busy.now = True
        try:
            for one, texts in self.of(frame.f_code).get(line, ()):
                self.one(frame, one, texts)
        except Exception as error:
            self.told(error)
        finally:
            self.busy.now = False

    def one(self, frame: FrameType, one: dict[str, Any], texts: list[CodeType]) -> None:
        """Keep one expression's value."""
        # Not at the start of each Python: it needs numpy.
        from weft.values.array_part import Part
        from weft.values.probes import _capture

        capture = _capture()
        if capture is None:
            return
        try:
            value, *lower = [eval(text, frame.f_globals, frame.f_locals) for text in texts]
        except Exception as error:
            capture.complain(one["of"] or one["text"], f"{type(error).__name__}: {error}", frame)
            return
        capture.probe(
            one["of"] or one["text"], Part(value, one["of"], lower[0], None) if one["of"] else value, None, frame
        )

    def told(self, error: Exception) -> None:
        """Say once what keeps values from being kept."""
        if self.lines:
            sys.stderr.write(f"weft: --watch keeps nothing here: {type(error).__name__}: {error}\n")
        self.lines, self.known = {}, dict.fromkeys(self.known)

    # Python 3.12 and later: only lines of code that is watched cost anything.

    def monitor(self) -> None:
        """Ask the interpreter for lines."""
        events, tool = _MONITORING.events, _MONITORING.DEBUGGER_ID
        _MONITORING.use_tool_id(tool, "weft --watch")
        _MONITORING.register_callback(tool, events.PY_START, self.started)
        _MONITORING.register_callback(tool, events.LINE, self.line)
        _MONITORING.set_events(tool, events.PY_START)

    def started(self, code: CodeType, _: int) -> object:
        """A function begins."""
        if self.of(code):
            _MONITORING.set_local_events(_MONITORING.DEBUGGER_ID, code, _MONITORING.events.LINE)
        return _MONITORING.DISABLE

    def line(self, code: CodeType, line: int) -> object:
        """A line begins."""
        if line not in (self.of(code) or ()):
            return _MONITORING.DISABLE
        self.keep(sys._getframe(1), line)
        return None

    # Before: each call of a function is looked at.

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        """A function is called."""
        if event == "call" and self.of(frame.f_code):
            return self.local
        return None

    def local(self, frame: FrameType, event: str, _: object) -> Any:
        """Something happens in a function that is watched."""
        if event == "line" and frame.f_lineno in (self.of(frame.f_code) or ()):
            self.keep(frame, frame.f_lineno)
        return self.local

    def begin(self) -> None:
        """Watch from here on."""
        if _MONITORING is not None:
            self.monitor()
        else:
            sys.settrace(self.trace)
            threading.settrace(self.trace)


def _start() -> None:
    path = os.environ.pop("WEFT_INTERNAL_WATCHES", None)
    before = os.environ.pop("WEFT_INTERNAL_PYTHONPATH", "")
    if path is None:
        return
    here = Path(__file__).absolute().parent
    sys.path[:] = [one for one in sys.path if Path(one).absolute() != here]
    if before:
        os.environ["PYTHONPATH"] = before
    else:
        os.environ.pop("PYTHONPATH", None)
    _Watcher(json.loads(Path(path).read_text(encoding="utf-8"))["watches"]).begin()


def _real() -> None:
    """The environment's own module of this name, which ours stands before."""
    own = sys.modules.pop(__name__)
    with suppress(ImportError):
        importlib.import_module(__name__)
    sys.modules.setdefault(__name__, own)  # there may be none


try:
    _start()
except Exception as error:
    sys.stderr.write(f"weft: --watch cannot begin: {type(error).__name__}: {error}\n")
_real()
