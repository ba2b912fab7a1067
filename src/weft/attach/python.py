"""Stacks of Python ranks, native frames among them, by py-spy: it only reads, and lets go at once."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from weft.attach.hold import Standing
from weft.attach.model import Frame
from weft.debug.running import forbidden
from weft.errors import UsageError
from weft.trace.sites import CallSite

SECONDS = 30.0
"""For one process; py-spy takes some tens of milliseconds of a processor that nobody else wants."""
STARTS = re.compile(r"^<frozen runpy>$|/weft/standstill/__main__\.py$")
"""Files whose functions only start a program (`python -m`)."""
REMEDY = "py-spy reads the stacks of Python: pip install py-spy"


def program() -> str:
    """Where py-spy is: beside the Python that runs Weft, or on the PATH. UsageError where it is nowhere."""
    beside = Path(sys.executable).parent / "py-spy"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")
    if found is None:
        raise UsageError(REMEDY)
    return found


def stacks(pids: Sequence[int], held: Standing, problems: dict[int, str]) -> dict[int, dict[int, list[Frame]]]:
    """The frames of all threads, innermost first, by process and thread. Each process runs only while it is read."""
    if not pids:
        return {}
    spy, told = program(), {}
    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(cores) as pool:
        running: dict[Future[list[dict[str, Any]] | str], int] = {}
        left = list(pids)
        while left or running:
            while left and len(running) < cores:
                pid = left.pop(0)
                held.release(pid)
                running[pool.submit(dump, spy, pid)] = pid
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                pid = running.pop(done)
                held.hold([pid])
                told[pid] = done.result()
    found = {}
    for pid, answer in told.items():
        if isinstance(answer, str):
            problems[pid] = answer
        else:
            found[pid] = {int(one["os_thread_id"] or 0): frames_of(one["frames"]) for one in answer}
    return found


def dump(spy: str, pid: int) -> list[dict[str, Any]] | str:
    """The threads of a process as py-spy tells them, or what went wrong."""
    said = ""
    for native in (["--native"], []):  # not on every kind of processor
        command = [spy, "dump", "--pid", str(pid), "--json", "--locals", *native]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"py-spy does not come to its end: {error}"
        if done.returncode == 0:
            return list(json.loads(done.stdout))
        said = said or done.stderr.strip()
        if "ermission denied" in done.stderr:
            return forbidden(pid)
    return said.splitlines()[-1].strip() if said else f"py-spy ended with status {done.returncode}"


def frames_of(told: Sequence[dict[str, Any]]) -> list[Frame]:
    """The frames of a thread as py-spy tells them; a native one has a module."""
    found = []
    for frame in told:
        name = str(frame["name"])
        python = frame["module"] is None and not name.startswith("0x")  # an address is of code that nobody knows
        file = frame["filename"] if python or frame["line"] else None
        if python and STARTS.search(file or ""):
            continue
        site = CallSite(file, int(frame["line"]), None if name.startswith("0x") else name, frame["module"])
        values = [(str(one["name"]), str(one["repr"])) for one in frame["locals"] or () if is_number(one["repr"])]
        found.append(Frame(site, python, tuple(values)))
    return found


def is_number(text: str | None) -> bool:
    """Whether a variable's text is a number: other things would not tell whether a rank has come on."""
    try:
        float(text or "")
    except ValueError:
        return text in ("True", "False")
    return True
