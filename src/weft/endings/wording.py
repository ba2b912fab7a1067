"""Say in words how a rank ended."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np

from weft.base.words import listed, printable, short_function
from weft.endings.end_causes import End, How, find_callers_of_user_site, find_own_finalize, find_user_site
from weft.terms.describe import call_words, site_suffix, task_suffix
from weft.terms.library_code import is_library_code
from weft.trace import Ending, EndingKind, Event, ExitKind
from weft.trace.sites import CallSite

MAX_TEXT: Final = 160
_STACK: Final = re.compile(r"(?:\w+\(\d+\)|\(unknown\)\(\))\.*: (.+)")
"""A line of MPICH's error stack."""
_ASSERTION: Final = re.compile(r"Assertion `(.*)' failed", re.DOTALL)

_FAULTS: Final[dict[tuple[int, int], str]] = {
    (signal.SIGSEGV, 1): "no memory is mapped there", (signal.SIGSEGV, 2): "the program may not access this memory "
        "in this way",
    (signal.SIGBUS, 1): "the address is not aligned",
    (signal.SIGBUS, 2): "no memory is behind this address, for example past the end of a mapped file",
    (signal.SIGFPE, 1): "an integer division by zero", (signal.SIGFPE, 2): "an integer overflow",
    (signal.SIGFPE, 3): "a division by zero", (signal.SIGFPE, 4): "an overflow", (signal.SIGFPE, 5): "an underflow",
    (signal.SIGFPE, 7): "an invalid operation", (signal.SIGILL, 1): "an illegal instruction",
}  # fmt: skip
_ENTRY: Final = frozenset(("<module>", "main", "MAIN__"))


def describe_end(end: End, ranks: int = 1, *, job_failed: bool = False) -> str:
    """Return the words that follow `rank 1`, such as `ended by KeyError: 'missing' at exc.py:4 in work (called at
    exc.py:6)`. `ranks`: how many ranks the sentence is about; `job_failed`: whether another rank ended the job."""
    taken_along = job_failed and end.how in (How.SIGNAL, How.CUT_OFF)
    said = f"was ended with the job, while{_describe_position(end)}" if taken_along else _WORDS[end.how](end)
    for one, many in (("was ", "were "), ("is ", "are "), ("has ", "have ")):
        if ranks > 1 and said.startswith(one):
            said = many + said.removeprefix(one)
    return printable(said)


def describe_thread_end(ending: Ending) -> str:
    """Return the same for a thread or task: what follows `thread writer of rank 1`."""
    return printable(f"ended by {_exception(ending)}{describe_end_line(ending)}")


def _exception(ending: Ending) -> str:
    text = first_line(extract_error_reason(ending.text) if "error stack" in ending.text else ending.text)
    return f"{ending.name}: {text}" if text else ending.name


def _by_exception(end: End) -> str:
    assert end.ending is not None
    return f"ended by {_exception(end.ending)}{describe_end_line(end.ending)}"


def _describe_crash(end: End) -> str:
    """Return the words for a crash: the signal or failed assertion, and where."""
    ending = end.ending
    assert ending is not None
    if ending.code == signal.SIGABRT:
        failed = _ASSERTION.search(ending.text)
        said = f"assertion `{failed[1]}' failed" if failed else first_line(ending.text) or "it called abort()"
        return f"crashed by {signal_name(ending.code)}: {said}{describe_end_line(ending)}"
    return f"crashed by {_describe_fault(ending)},{describe_end_line(ending) or ' at an unknown line'}"


def _describe_fault(ending: Ending) -> str:
    """Return a signal and its reason, such as `SIGSEGV at address 0x8 (no memory is mapped there)`."""
    why = _FAULTS.get((ending.code, ending.detail), "")
    touched = ending.code in (signal.SIGSEGV, signal.SIGBUS) and ending.detail > 0
    address = f" at address {ending.address:#x}" if touched else ""
    return signal_name(ending.code) + (f"{address} ({why})" if why else address)


_WORKS: Final[Mapping[str, str]] = {
    "heap": "it looked up the heap blocks of buffers", "buffers": "it looked at buffers of pending operations",
    "hashes": "it hashed messages", "accesses": "it recorded memory accesses of a program built with `weft cc`",
    "halo": "it compared ghost cells", "lines": "it looked up the source line of a call",
}  # fmt: skip
"""What the parts of the recorder do that WEFT_WITHOUT leaves out (weft.launch.recorder)."""


def _describe_error_of_weft(end: End) -> str:
    """Return words for a crash in Weft's own recorder: what to send to its authors, and how to record without the
    faulty part. A line of the program is never named."""
    ending = end.ending
    assert ending is not None
    part = ending.part_of_weft
    around = f"; until then, WEFT_WITHOUT={part} weft run ... records without that part" if part in _WORKS else ""
    return (
        f"was ended by Weft's error, not the program's (to report it, send {end.rank.trace.path} and the output of "
        f"`weft doctor --bug-report`{around}): its recorder crashed by {_describe_fault(ending)} while "
        f"{_WORKS.get(part, 'it recorded a call')}"
    )


def _by_abort(end: End) -> str:
    if end.ending is None:
        return "called MPI_Abort" + _describe_last_call(end)
    return f"called MPI_Abort(errorcode={end.ending.code}){describe_end_line(end.ending)}"


def _describe_mpi_error(end: End) -> str:
    """Return the words for an error inside MPI: the call, its line, and the reason that MPI gives."""
    if end.ending is not None and end.ending.kind is EndingKind.NOT_INITIALISED:
        where = describe_end_line(end.ending)
        return f"was ended by MPI inside {end.ending.name}{where}, called before MPI was initialised"
    last = find_own_finalize(end.rank)
    if last is not None and last.error:
        return f"got an error in {call_words(last)}{site_suffix(last)} (class {last.error})"
    inside = end.open_calls[:1]
    said = first_line(extract_error_reason(end.rank.definitions.ended or ""))
    at_call = f" inside {call_words(inside[0])}{site_suffix(inside[0])}" if inside else ""
    return f"was ended by MPI{at_call}" + (f": {said}" if said else "")


def extract_error_reason(text: str) -> str:
    """Return the reason in the text of an MPI error: the last line of MPICH's error stack, or the middle one of Open
    MPI's lines."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    stack = [found[1] for line in lines if (found := _STACK.match(line))]
    return stack[-1] if stack else next((line for line in lines if "MPI_ERR" in line), lines[-1] if lines else "")


def _describe_exit(end: End) -> str:
    """Return words for an exit of the program before it had left MPI, and where that was."""
    ending = end.ending
    if ending is None:
        return f"ended without {end.rank.trace.system.last}{_describe_last_call(end)}"
    finalized = ending.how is ExitKind.PYTHON
    return f"{describe_exit_call(ending)}{describe_end_line(ending)}" + (
        "" if finalized else f", without {end.rank.trace.system.last}"
    )


def describe_exit_call(ending: Ending) -> str:
    """Return how the program exited: `ended by sys.exit(3)`, `returned 1 from main`."""
    code = ending.code
    if ending.how is ExitKind.RETURN:
        return f"returned {code} from main"
    if ending.how is ExitKind.PYTHON:
        said = first_line(ending.text)
        return f"ended by sys.exit({said if said and not said.isdigit() else code})"
    if ending.how is ExitKind.FORTRAN:
        return f"ended by {ending.name or 'STOP'} {code}".rstrip()
    if ending.how is ExitKind.RUNTIME:
        return f"ended by a Fortran runtime error (status {code})" + (
            f": {first_line(ending.text)}" if ending.text else ""
        )
    return f"ended by {ending.name or 'exit'}({code})"


def _by_signal(end: End) -> str:
    assert end.ending is not None
    return f"got {signal_name(end.ending.code)}{_describe_position(end)}{_describe_handled_signal(end)}"


def _describe_handled_signal(end: End) -> str:
    """Return words that say that the program handled the signal, and where its record ends; empty if it did not."""
    if not end.has_handled_signal:
        return ""
    if find_own_finalize(end.rank) is not None and not end.open_calls:
        return ", handled it and finished"
    return f", handled it and went on; its record ends{_describe_end_of_record(end)}"


def _cut_off(end: End) -> str:
    verb = {"running": "is", "interrupted": "was", "killed": "was", "deadlock": "was"}
    return verb.get(str(end.rank.trace.run.get("ended")), "ended") + _describe_position(end)


def _describe_position(end: End) -> str:
    """Return words for where a rank was: in its open calls, at the line where a signal or Weft's question found it, or
    after its last call."""
    if end.calls_at_signal:
        return _describe_calls(end.calls_at_signal)
    if end.rank.state == "starting" and not len(end.rank):
        return f" inside {end.rank.trace.system.name}'s initialisation, or before it"
    if end.ending is not None and (site := find_user_site(end.ending)) is not None:
        return f" outside {end.rank.trace.system.name}{_at(site)}{_called(end.ending)}"
    return f" outside {end.rank.trace.system.name}" + ("" if end.has_handled_signal else _describe_last_call(end))


def _describe_end_of_record(end: End) -> str:
    """Return words for where a rank was when its record ends: in its open calls, or outside MPI after its last call."""
    return (
        _describe_calls(end.open_calls)
        if end.open_calls
        else f" outside {end.rank.trace.system.name}{_describe_last_call(end)}"
    )


def _describe_calls(events: list[Event]) -> str:
    return " in " + listed([call_words(e) + site_suffix(e) + task_suffix(e) for e in events])


def _describe_last_call(end: End) -> str:
    """Return `, after` and the last call that a rank made before its end; empty if it made none."""
    before = int(np.count_nonzero(end.rank.enter_ns() < end.time_ns)) if len(end.rank) else 0
    if not before:
        return ""
    last = end.rank.event(before - 1)
    return f", after {call_words(last)}{site_suffix(last)}"


_WORDS: Final[Mapping[How, Callable[[End], str]]] = {
    How.EXCEPTION: _by_exception,
    How.CRASH: _describe_crash,
    How.WEFT: _describe_error_of_weft,
    How.ABORT: _by_abort,
    How.ERROR: _describe_mpi_error,
    How.EXIT: _describe_exit,
    How.SIGNAL: _by_signal,
    How.CUT_OFF: _cut_off,
    How.STOPPED: lambda end: "went on unrecorded: Weft gave up recording" + _describe_last_call(end),
    How.MISSING: lambda end: (
        "left no record" if end.rank.missing else "has a damaged record" + _describe_last_call(end)
    ),
    How.FINISHED: lambda end: "finished",
}


def signal_name(number: int) -> str:
    """`SIGSEGV`."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def first_line(text: str) -> str:
    """Return the first line of a text, not too long for a sentence."""
    line = next((one.strip() for one in text.splitlines() if one.strip()), "")
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 3] + "..."


def describe_end_line(ending: Ending) -> str:
    """Return ` at exc.py:4 in work (called at exc.py:6)`; empty if no line is known."""
    site = find_user_site(ending)
    if site is None:
        return ""
    deeper = ending.site
    inside = (
        f", raised in {_short(deeper)}" if deeper is not None and deeper != site and _deeper(ending, deeper) else ""
    )
    return f"{_at(site)}{inside}{_called(ending)}"


def _deeper(ending: Ending, place_: CallSite) -> bool:
    """Return whether the line lies in a library that has a name to tell."""
    return is_library_code(place_) and not (place_.file or "").endswith((".pyx", ".pxi")) and bool(ending.python)


def _at(site: CallSite) -> str:
    function = short_function(site.function or "")
    return f" at {_short(site)}" + (f" in {function}" if function and function not in _ENTRY else "")


def _called(ending: Ending) -> str:
    behind = find_callers_of_user_site(ending)[:1]
    return f" (called at {_short(behind[0])})" if behind else ""


def _short(site: CallSite) -> str:
    if site.file is None and site.module:
        return f"{Path(site.module).name}+{site.offset:#x}"
    return f"{Path(site.file or '?').name}:{site.line}"
