"""What is asked of a thread inside a call of native code is done when that returns, before anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import weft
from tests_support import execute, pythons

INSIDE = Path(weft.__file__).parent / "inprocess"
PROGRAM = """
import json, sys, threading

sys.path.insert(0, sys.argv[1])
from thread_callback import ThreadCallback

met, held, done = [], threading.Lock(), []
held.acquire()


def traced(frame, event, value):
    if frame.f_code.co_filename != __file__:
        return None
    told = value if event == "return" else frame.f_lineno - frame.f_code.co_firstlineno
    met.append([event, frame.f_code.co_name, told])
    return traced


def begin(frame):
    done.append(threading.get_ident())
    while frame is not None:
        if frame.f_code.co_filename == __file__:
            frame.f_trace = traced
        frame = frame.f_back
    sys.settrace(traced)


def asked():
    threading.Timer(0.1, soon.request_call).start()
    held.acquire(blocking=True, timeout=0.3)  # an argument that is named: 3.14 looks for no pending call behind it
    first = 1
    second = len([first])
    return second


def returned():
    threading.Timer(0.1, soon.request_call).start()
    return held.acquire(blocking=True, timeout=0.3)


def raised():
    threading.Timer(0.1, soon.request_call).start()
    try:
        {}[held.acquire(blocking=True, timeout=0.3)]
    except KeyError:
        pass


def called():
    threading.Timer(0.1, soon.request_call).start()
    inner(held.acquire(blocking=True, timeout=0.3))


def inner(one):
    return one


soon = ThreadCallback(threading.get_ident(), begin)
told = {}
for function in (asked, returned, raised, called):
    met.clear()
    function()
    sys.settrace(None)
    told[function.__name__] = [one for one in met if one[1] != "<module>"]
sys.settrace(traced)  # a tracer that is there already hears of nothing twice
met.clear()
asked()
sys.settrace(None)
told["twice"] = [one for one in met if one[1] == "asked"]
print(json.dumps([told, len(done), done == [threading.get_ident()] * len(done)]))
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize("python", pythons())
def test_it_is_done_at_the_next_event_of_the_thread(python: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    ran = execute([python, "program.py", str(INSIDE)], cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    told, times, alone = json.loads(ran.stdout)
    assert (times, alone) == (5, True)
    lines = [["line", "asked", n] for n in (3, 4, 5)]
    assert told["asked"] == [*lines, ["return", "asked", 1]]
    assert told["returned"][:1] == [["return", "returned", False]]
    assert ["line", "raised", 4] in told["raised"]
    assert told["called"][:2] == [["call", "inner", 0], ["line", "inner", 1]]
    assert told["twice"] == [
        ["call", "asked", 0],
        *(["line", "asked", n] for n in (1, 2, 3, 4, 5)),
        ["return", "asked", 1],
    ]
