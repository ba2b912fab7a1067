"""Whole runs: damaged in their records, packs, JSON or what else lies in them, and read by a command of Weft."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from fuzzed import damage, records

import weft
from weft.errors import WeftError
from weft.export import FORMATS
from weft.halo.log import HEAD, MAGIC, NUMBER, READ, Kind
from weft.native.headers.record import kernel
from weft.pvm import table, tasks
from weft.sources import keep_sources
from weft.trace import Level
from weft.trace.builder import Builder
from weft.trace.builder.record import RecordFile
from weft.trace.layout import EVENT, Flag, State, StreamKind
from weft.values import recording

Act = Callable[[], object]
"""Reads what was damaged; what it returns is counted, what it raises is a fault."""
GOLDEN = Path(__file__).parents[2] / "trace" / "golden"
PROBES = """
import numpy as np, weft
for i in range(6):
    with weft.loop("x", i):
        weft.probe("a", np.arange(5.0) + i)
    with weft.region("r"):
        weft.probe("b", i)
"""
PART: dict[str, Any] = {
    "id": 0, "of": "u", "at": ["step.py", 3, "main"], "shape": [6, 5], "strides": [40, 8], "halo": [[1, 1], [1, 1]],
    "lower": None, "whole": None, "periodic": None, "lag": 0,
    "grid": {"dims": [2, 1], "coordinates": [0, 0], "periods": [False, False]},
}  # fmt: skip
READS = [{"part": 0, "cells": [0, [4, 3], [40, 8]], "at": ["step.py", 7, "main"]}]
USE: dict[str, Any] = {"id": 0, "part": 0, "what": "store", "at": ["step.py", 7, "main"],
                       "cells": [48, [4, 3], [40, 8]], "computed": True, "reads": READS}  # fmt: skip
EXPLORED = {"schema": "weft-explored/1", "outcomes": [
    {"number": 1, "run": "run-other-1", "forced": "0:9=1", "effects": ["a deadlock"], "status": 3, "harm": 2,
     "output": []},
]}  # fmt: skip
VARIABLES = {"schema": "weft-variables/1", "modules": [{
    "path": "/bin/prog", "build_id": "ab", "types": [["double", 8, 8, [[0, "double", 8, "x"]]]],
    "frames": {"77": [["u", 64, 32, 3, 0]]}, "statics": [["s", 4096, 64, 9, 0]], "pointed": {"77": {"0": ["p", 0]}},
}]}  # fmt: skip
MORE = {
    "command": ["mpiexec", "-n", "3", "./prog"], "n": 3, "local": "/tmp/base/run-1", "interrupted_by": "SIGTERM",
    "evidence": {"memory_kills": 1, "of": "group", "memory_limit": 2**30, "cpu_limit": 60, "names": ["a", "b"],
                 "batch": {"system": "slurm", "job": "7", "end": 1.5}},
    "hosts": [{"host": "one", "files": 2, "bytes": 10, "sha256": "ab"}],
    "lost": [{"host": "two", "ranks": [2], "why": "gone", "folder": "/tmp/x"}], "tasks": True, "hashes": True,
    "step": {"system": "slurm", "name": "7.0"}, "replay_of": "weft-runs/prog-1", "signature": "ab",
    "replayed": {"result": "stopped", "held": True, "polls": False},
}  # fmt: skip
"""Facts that a run may have beside those of the sample."""


@dataclass(frozen=True)
class Seeds:
    """What is damaged: whole runs, and files of other kinds by their name."""

    folder: Path

    @property
    def sample(self) -> Path:
        """A run with a bit of everything."""
        return self.folder / "sample"

    def runs(self) -> list[Path]:
        """All runs, the sample most often."""
        others = [path for path in sorted(self.folder.iterdir()) if path != self.sample]
        return [self.sample] * (1 + len(others)) + others


def make(folder: Path) -> Seeds:
    """Make what is damaged."""
    run = folder / "sample"
    records.sample(run)
    facts = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**MORE, **facts}))
    (run / "variables.json").write_text(json.dumps(VARIABLES))
    (run / "explored.json").write_text(json.dumps(EXPLORED))
    _keep_sources(run)
    (run / "halo").mkdir()
    (run / "halo" / "0-000000.halo").write_bytes(_ghosts())
    (run / "values").mkdir()
    library = recording.library()
    variables = {"WEFT_INTERNAL_VALUES": str(run / "values"), "WEFT_INTERNAL_VALUES_LIBRARY": str(library)}
    subprocess.run([sys.executable, "-c", PROBES], env={**os.environ, **variables}, check=True, timeout=60)
    tasks.create_task_file(run, 2)
    tasks.trim_task_file(run)
    _outcomes(folder / "outcomes")
    _kept(folder / "kept")
    _pvm(folder / "pvm")
    shutil.copytree(GOLDEN / "1.0", folder / "golden")
    return Seeds(folder)


def _outcomes(run: Path) -> None:
    """A run of level `outcomes`, whose half bytes are any: most of them mean something."""
    r = random.Random(0)
    b = Builder(ranks=2, path=run, level=Level.OUTCOMES, functions=records.some_functions())
    for rank in b.ranks:
        rank.append_outcomes([r.randrange(16) for _ in range(300)])
    b.write()


def _kept(run: Path) -> None:
    """A run whose records are rings, which have dropped their beginning."""
    b = Builder(ranks=2, path=run, functions=records.some_functions())
    receive, send = (b.functions[name].id for name in ("MPI_Recv", "MPI_Send"))
    b.write()
    for path in sorted((run / "ranks").iterdir()):
        path.unlink()
        number = int(path.stem[-1])
        file = RecordFile(path, Level.TRACE, number, 2)
        kernel().weft_record_keep(file._record, 1)
        events = np.zeros(3000, EVENT)
        events["enter"] = np.arange(1, 3001) * 10
        events["function"], events["peer"] = send if number else receive, 1 - number
        events["comm"], events["flags"], events["count"], events["datatype"] = 2, Flag.CLOSED, 1, 4
        for k in range(0, 3000, 50):
            file.append(StreamKind.EVENTS, 0, events[k : k + 50])
        file.close(State.FINALIZED)


def _pvm(run: Path) -> None:
    """A run of PVM: each of its functions, with arguments of any meaning, and three tasks."""
    r = random.Random(0)
    b = Builder(ranks=3, path=run, functions=table.to_json({"library": "synthetic"}))
    b.write()
    numbers = list(table.first_function_ids().values())
    for path in sorted((run / "ranks").iterdir()):
        path.unlink()
        number = int(path.stem[-1])
        file = RecordFile(path, Level.TRACE, number, 3)
        events = np.zeros(400, EVENT)
        events["enter"] = np.arange(1, 401) * 10
        for name, values in (("function", numbers), ("peer", [0, 1, 2, -1]), ("tag", [0, 1, 7]), ("count", [1, 4]),
                             ("object", [0, 256, 257, 258]), ("comm", [2]), ("flags", [Flag.CLOSED])):  # fmt: skip
            events[name] = [r.choice(values) for _ in range(400)]
        file.append(StreamKind.EVENTS, 0, events)
        file.close(State.FINALIZED)
    tasks.create_task_file(run, 3)
    places = [(0x40001 + n, -1 if not n else 0, n, 100 + n, 1, 0, b"worker") for n in range(3)]
    at = tasks.HEADER.pack(tasks.MAGIC, 3, 3) + b"".join(tasks.TASK.pack(*place) for place in places)
    tasks.task_file(run).write_bytes(at)


def _keep_sources(run: Path) -> None:
    """Give the run the text of its sources, as the machine that ran it would have."""
    text = "".join(f"line({n})\n" for n in range(1, 40)).encode()
    packed = zlib.compress(text)
    entry = {"path": "step.py", "found": "/nowhere/step.py", "size": len(text), "mtime_ns": 1, "own": True,
             "sha256": hashlib.sha256(text).hexdigest(), "calls": {"9": ["comm.send"]}, "spans": [[1, 39]],
             "at": 0, "packed": len(packed), "plain": len(text)}  # fmt: skip
    (run / keep_sources.INDEX).write_text(json.dumps({"schema": keep_sources.SCHEMA, "files": [entry]}))
    (run / keep_sources.TEXTS).write_bytes(packed)


def _ghosts() -> bytes:
    """A rank's account of its ghost cells."""
    parts: list[tuple[int, bytes]] = [
        (Kind.PART, json.dumps(PART).encode()), (Kind.GHOSTS, NUMBER.pack(0, 0) + bytes(72)),
        (Kind.USE, json.dumps(USE).encode()), (Kind.RUN, NUMBER.pack(0, 1) + READ.pack(1, 1, 0)),
    ]  # fmt: skip
    return MAGIC + b"".join(HEAD.pack(kind, len(body), 1) + body for kind, body in parts)


# Damage


def of_records(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """Records of ranks, by what their layout says and by any byte."""
    run = copied(seeds.sample, folder)
    if r.random() < 0.35:
        run = copied(r.choice(seeds.runs()), folder)
        file = r.choice([*sorted((run / "ranks").iterdir()), *sorted((run / "tasks").glob("*"))])
        other = r.choice(sorted((r.choice(seeds.runs()) / "ranks").iterdir()))
        file.write_bytes(damage.change(file.read_bytes(), r, other.read_bytes()))
    else:
        r.choice(records.DAMAGE)(run, r)
    return reader(seeds, run, r)


def of_packs(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """Records of many ranks in one file."""
    run = copied(seeds.sample, folder)
    records.packs(run, r)
    if r.random() < 0.3:
        file = next((run / "ranks").glob("*.pack"))
        file.write_bytes(damage.change(file.read_bytes(), r))
    return reader(seeds, run, r)


def of_json(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """The JSON files of a run, one or two of them."""
    run = copied(r.choice(seeds.runs()), folder)
    for file in r.choices(sorted(run.glob("*.json")), k=r.choice([1, 1, 2])):
        file.write_bytes(damage.change_json(file.read_bytes(), r))
    return reader(seeds, run, r)


def of_others(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """What else lies in a run: values of probes, ghost cells, sources, tasks of PVM."""
    run = copied(seeds.sample, folder)
    kept = [*run.glob("values/*"), *run.glob("halo/*"), run / "sources.bin", run / "pvm" / "tasks.bin"]
    file = r.choice(sorted(kept))
    change = damage.change_json if file.suffix == ".json" else damage.change
    file.write_bytes(change(file.read_bytes(), r))
    own = [["probes", run], ["compare", "--values", seeds.sample, run], ["compare", "--values", run, seeds.sample]]
    return command(*r.choice(own)) if file.parent.name == "values" and r.random() < 0.7 else reader(seeds, run, r)


def of_pvm(seeds: Seeds, folder: Path, r: random.Random) -> Act:
    """Records of PVM, and the file of its tasks."""
    run = copied(seeds.folder / "pvm", folder)
    files = [tasks.task_file(run), *sorted((run / "ranks").iterdir())]
    for file in r.sample(files, r.choice([1, 1, 2])):
        file.write_bytes(damage.change(file.read_bytes(), r))
    return reader(seeds, run, r)


def copied(run: Path, folder: Path) -> Path:
    """A copy of a run, to be damaged."""
    target = folder / "run"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(run, target)
    return target


# Reading


def reader(seeds: Seeds, run: Path, r: random.Random) -> Act:
    """One of the ways to read a run."""
    out, good = run.parent / "out", seeds.sample
    asked: list[list[str | Path]] = [
        ["report", run], ["report", run], ["report", run, "--times", "--matrix", "--evidence"],
        ["report", run, "--format", "json"], ["report", run, "--format", "sarif"],
        ["report", run, "--format", "html", "-o", out], ["report", run, "--format", "html", "-o", out],
        ["dump", run], ["dump", run, "--format", "json"], ["dump", run, "--definitions"],
        ["dump", run, "--format", "csv"], ["dump", run, "--definitions", "--format", "json"],
        ["dump", run, "--where", "wait>1us tag:0 site:step.py:9"],
        ["compare", good, run], ["compare", run, good], ["compare", run, good, "--format", "json"],
        ["view", run, "--output", out], ["view", run, "--output", out], ["view", run, "--text"], ["probes", run],
        ["replay", run], ["explore", run], ["pack", run], ["gather", out, run], ["gather", run, good],
    ]  # fmt: skip
    acts: list[Act] = [command(*words) for words in asked]
    acts += [lambda: read_all(run), lambda: lay_plan(run, r), *(exported(run, to, out) for to in sorted(FORMATS))]
    return r.choice(acts)


def command(*words: str | Path) -> Act:
    """A command of Weft, as it is called; its exit status."""

    def act() -> object:
        from weft.__main__ import main

        sys.argv = ["weft", *map(str, words)]
        try:
            status: object = main()
        except SystemExit as end:
            status = end.code or 0
        sys.stdout.flush()
        if status not in (0, 1, 2, 4):
            raise AssertionError(f"status {status} of {sys.argv} is none that the pages name")
        return status

    act.__name__ = " ".join(str(word) for word in words)
    return act


def exported(run: Path, to: str, out: Path) -> Act:
    """The run in another format."""
    return command("export", run, "--format", to, "--output", out)


def read_all(run: Path) -> str:
    """Look at everything in Python; what becomes of it: `refused`, `partial` or `whole`."""
    try:
        trace = weft.open(run)
        for comm in trace.communicators:
            len(comm.members)
        for rank in trace.ranks:
            rank.endings  # noqa: B018 - reading is the test
            rank.enter_ns()
            rank.exit_ns()
            rank.comm_indices()
            for event in islice(rank, 60):
                _ = (event.args, event.status, event.site.text, event.comm, event.peer_index, event.ticket,
                     event.received, event.task)  # fmt: skip
                if event.datatype:
                    event.datatype.signature()
            for thread in rank.threads:
                len(thread.outcome_log)
        list(trace.select("tag:0 wait>1us comm:world site:step.py:9 is:error"))
    except WeftError as error:
        if not str(error):
            raise AssertionError("an error without a word") from error
        return "refused"
    return "partial" if trace.problems else "whole"


def analyse(run: Path) -> str:
    """The analyses alone, whatever they say; what becomes of it as in read_all."""
    from weft.report.analysis import analyse as analysed

    said = read_all(run)
    if said != "refused":
        analysed(weft.open(run))
    return said


def lay_plan(run: Path, r: random.Random) -> str:
    """Read the run as a replay does before it starts anything."""
    from weft.cli import replay

    number = r.randrange(8)
    places = [[], [f"{number % 3}:{number}"], ["step.py:9#2"], ["finding:1"], ["t=0.1"], ["exchange"]]
    force = r.choice([None, None, None, f"1:{number}=2", f"2:{number}=#0"])
    until = [] if force else r.choice(places)
    args = argparse.Namespace(until=until, breaks=[], latest=r.random() < 0.3, force=force)
    try:
        trace = weft.open(run)
        replay.choose_command(trace, [], None)
        plans, cut = replay.make_plans(trace, args)
        if r.random() < 0.5:
            replay.make_conductor(trace, plans, cut)
    except WeftError as error:
        if not str(error):
            raise AssertionError("an error without a word") from error
        return "refused"
    return "planned"
