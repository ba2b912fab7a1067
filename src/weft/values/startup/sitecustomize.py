"""Read by a Python rank at its start: keep values at the lines that `weft run --watch` names, and never
stop the rank.
"""

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


def _watches_by_line(watches: list[dict[str, Any]]) -> dict[str, dict[int, list[dict[str, Any]]]]:
    """Return the watches at lines of Python files, by file name and line."""
    found: dict[str, dict[int, list[dict[str, Any]]]] = {}
    for one in watches:
        if one["file"].endswith((".py", ".pyw", ".ipynb")):
            found.setdefault(Path(one["file"]).name, {}).setdefault(one["line"], []).append(one)
    return found


class _Watcher:
    """Evaluate expressions before their lines run."""

    def __init__(self, watches: list[dict[str, Any]]) -> None:
        self.lines = _watches_by_line(watches)
        self.known: dict[CodeType, Any] = {}  # by code: line -> watches with their compiled expressions
        self.busy = threading.local()

    def watches_of(self, code: CodeType) -> Any:
        """Return the compiled watches of a code object by line; None if it has none. They are compiled at the first
        call.
        """
        if code not in self.known:
            self.known[code] = self._compile_watches(code)
        return self.known[code]

    def _compile_watches(self, code: CodeType) -> Any:
        """Compile the watches at the lines of a code object, and return them by line; None if there are none."""
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

    def record_line(self, frame: FrameType, line: int) -> None:
        """Record the values of the expressions that are watched at a line. An error in doing so is reported and ends
        the watching.
        """
        if getattr(self.busy, "now", False):
            return
        self.busy.now = True
        try:
            for one, texts in self.watches_of(frame.f_code).get(line, ()):
                self.record_expression(frame, one, texts)
        except Exception as error:
            self.report_and_stop(error)
        finally:
            self.busy.now = False

    def record_expression(self, frame: FrameType, watch: dict[str, Any], codes: list[CodeType]) -> None:
        """Record the value of one watched expression in a frame. `codes`: the compiled expression, and after it its
        compiled index in the global array if it has one.
        """
        # Not at the start of each Python: it needs numpy.
        from weft.values.array_part import ArrayPart
        from weft.values.probes import _find_capture

        capture = _find_capture()
        if capture is None:
            return
        try:
            value, *lower = [eval(text, frame.f_globals, frame.f_locals) for text in codes]
        except Exception as error:
            capture.complain(watch["of"] or watch["text"], f"{type(error).__name__}: {error}", frame)
            return
        kept = ArrayPart(value, watch["of"], lower[0], None) if watch["of"] else value
        capture.probe(watch["of"] or watch["text"], kept, None, frame)

    def report_and_stop(self, error: Exception) -> None:
        """Report on standard error why no values are recorded, once, and stop watching."""
        if self.lines:
            sys.stderr.write(f"weft: --watch keeps nothing here: {type(error).__name__}: {error}\n")
        self.lines, self.known = {}, dict.fromkeys(self.known)

    # Python 3.12 and later: only lines of code that is watched cost anything.

    def use_monitoring(self) -> None:
        """Register for the interpreter's events of function starts and lines (Python 3.12 and later)."""
        events, tool = _MONITORING.events, _MONITORING.DEBUGGER_ID
        _MONITORING.use_tool_id(tool, "weft --watch")
        _MONITORING.register_callback(tool, events.PY_START, self.on_function_start)
        _MONITORING.register_callback(tool, events.LINE, self.on_line)
        _MONITORING.set_events(tool, events.PY_START)

    def on_function_start(self, code: CodeType, _: int) -> object:
        """Ask the interpreter for the line events of a function if it has watches. Returns DISABLE, since a function is
        looked at only once.
        """
        if self.watches_of(code):
            _MONITORING.set_local_events(_MONITORING.DEBUGGER_ID, code, _MONITORING.events.LINE)
        return _MONITORING.DISABLE

    def on_line(self, code: CodeType, line: int) -> object:
        """Record the watched values of a line before it runs. Returns DISABLE for a line without watches."""
        if line not in (self.watches_of(code) or ()):
            return _MONITORING.DISABLE
        self.record_line(sys._getframe(1), line)
        return None

    # Before: each call of a function is looked at.

    def trace_call(self, frame: FrameType, event: str, _: object) -> Any:
        """Return the trace function for the lines of a function that has watches, else None (before Python 3.12)."""
        if event == "call" and self.watches_of(frame.f_code):
            return self.trace_line
        return None

    def trace_line(self, frame: FrameType, event: str, _: object) -> Any:
        """Record the watched values of a line before it runs (before Python 3.12)."""
        if event == "line" and frame.f_lineno in (self.watches_of(frame.f_code) or ()):
            self.record_line(frame, frame.f_lineno)
        return self.trace_line

    def start_watching(self) -> None:
        """Start to watch lines: by the interpreter's monitoring, or before Python 3.12 by trace functions."""
        if _MONITORING is not None:
            self.use_monitoring()
        else:
            sys.settrace(self.trace_call)
            threading.settrace(self.trace_call)


def _start_watching() -> None:
    """Start to watch the lines that the run's file of watches names, if there is one. Before, restore PYTHONPATH and
    sys.path, by which Weft had this module imported.
    """
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
    _Watcher(json.loads(Path(path).read_text(encoding="utf-8"))["watches"]).start_watching()


def _import_shadowed_module() -> None:
    """Import the environment's own sitecustomize module, which this one hides."""
    own = sys.modules.pop(__name__)
    with suppress(ImportError):
        importlib.import_module(__name__)
    sys.modules.setdefault(__name__, own)  # there may be none


try:
    _start_watching()
except Exception as error:
    sys.stderr.write(f"weft: --watch cannot begin: {type(error).__name__}: {error}\n")
_import_shadowed_module()
