"""Records of ranks, and what lies beside them: a run with a bit of everything, and damage that knows its layout."""

from __future__ import annotations

import json
import os
import random
import shutil
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from weft.trace import layout, packed, packing
from weft.trace.builder import ANY, Builder, standard_functions
from weft.trace.layout import Def, EndingKind, State
from weft.trace.varint import encode_signed, encode_string, encode_unsigned

NAMES = """Send Recv Irecv Waitall Comm_split Intercomm_create Win_create Allreduce Type_vector Type_create_struct
Sendrecv File_open Testsome Iprobe Waitany Comm_spawn Put Alltoallw Get_count Pack""".split()


@cache
def some_functions() -> dict[str, Any]:
    """A small functions.json: reading the whole standard for each case would take most of the time."""
    whole = dict(standard_functions())
    wanted = {f"MPI_{name}" for name in NAMES}
    whole["functions"] = [f for f in whole["functions"] if f["name"] in wanted]
    return whole


def sample(path: Path) -> None:
    """A small run with a bit of everything."""
    b = Builder(ranks=3, path=path, functions=some_functions())
    r0, r1, r2 = b.ranks
    for i in range(5):
        r0.send(1, tag=i, site=("step.py", 9 + i, "exchange"), count=2**33)
        r1.recv(ANY, got=0, tag=i)
        request = r2.irecv(ANY, got=0, tag=3)
        r2.waitall([request])
    sub = b.split([0, 1, 0])
    b.comm("MPI_Intercomm_create", [0], remote=[1], key="5", peer_comm=2)
    b.window()
    for rank in (r0, r2):
        rank.allreduce(comm=sub[0])
    vector = r0.type_vector(3, 2, 5, "MPI_INT")
    struct = r0.type_struct([1, 2], [0, 64], ["MPI_DOUBLE", vector])
    r0.send(1, datatype=struct)
    r1.sendrecv(0, 0, thread=1, ticket=4)
    r1.call("MPI_File_open", filename="out.dat", comm=2, fh=256, amode=1, info=1)
    r1.define(
        Def.MODULE,
        encode_unsigned(1)
        + encode_unsigned(0)
        + encode_unsigned(4096)
        + encode_string("ab")
        + encode_string("/bin/prog"),
    )
    r1.add_ending(
        EndingKind.EXCEPTION, name="KeyError", text="'missing'", traceback="Traceback ...", python=[("a.py", 4, "f")]
    )
    r1.add_ending(
        EndingKind.SIGNAL, code=11, detail=1, address=0xDEAD, name="SIGSEGV", native=[(1, 77), (1, 90)], thread=None
    )
    r1.define(
        Def.SITE,
        encode_unsigned(9)
        + encode_unsigned(1)
        + encode_unsigned(77)
        + encode_unsigned(0)
        + encode_unsigned(0)
        + encode_unsigned(1)
        + encode_unsigned(1)
        + encode_unsigned(90),
    )
    r1.define(Def.ENV, encode_string("A=B"))
    r1.define(Def.ARGV, encode_unsigned(2) + encode_string("prog") + encode_string("x"))
    r1.define(Def.NAME, encode_unsigned(1) + encode_unsigned(256) + encode_string("mine"))
    r2.open.recv(0)
    for rank in b.ranks:
        rank.switch_task(7, parent=1, name="worker", site=3)
        rank.send(1 - rank.index if rank.index < 2 else 0, tag=9)
        rank.switch_task(1, kind=1)
        rank.send(0, tag=10)
    r1.switch_task(9, thread=1, kind=2, until=1)
    r1.sendrecv(0, 0, thread=1, ticket=5)
    r0.define_task(
        Def.MODULE,
        encode_unsigned(1) + encode_unsigned(0) + encode_unsigned(0) + encode_string("ab") + encode_string("/bin/prog"),
    )
    r0.define_task(
        Def.SITE,
        encode_unsigned(3)
        + encode_unsigned(1)
        + encode_unsigned(77)
        + encode_unsigned(0)
        + encode_unsigned(0)
        + encode_unsigned(0),
    )
    b.write()
    site = {"path": "/bin/prog", "build_id": "ab", "sites": {"77": [["prog.c", 3, "main"]]}}
    (path / "sites.json").write_text(json.dumps({"schema": "weft-sites/1", "modules": [site]}))


# Damage


def _some_rank(run: Path, r: random.Random) -> Path:
    return r.choice(sorted((run / "ranks").iterdir()))


def _some_file(run: Path, r: random.Random) -> Path:
    return r.choice([_some_rank(run, r), r.choice(sorted((run / "tasks").iterdir()))])


def truncate(run: Path, r: random.Random) -> None:
    """Cut a file anywhere."""
    file = _some_file(run, r)
    os.truncate(file, r.choice([r.randrange(file.stat().st_size + 1), r.randrange(0, file.stat().st_size, 4096)]))


def flip_anywhere(run: Path, r: random.Random) -> None:
    """Flip bits, mostly where something is written."""
    file = _some_file(run, r)
    data = bytearray(file.read_bytes())
    used = [i for i, byte in enumerate(data) if byte] or [0]
    for _ in range(r.choice([1, 1, 3, 30])):
        data[r.choice(used)] ^= 1 << r.randrange(8)
    file.write_bytes(data)


def garbage(run: Path, r: random.Random) -> None:
    """Overwrite a stretch."""
    file = _some_file(run, r)
    data = bytearray(file.read_bytes())
    at = r.choice([i for i in range(0, len(data), 8) if any(data[i : i + 8])] or [0])
    n = r.choice([8, 64, 4096])
    data[at : at + n] = r.choice([b"\xff" * n, b"\0" * n, r.randbytes(n)])
    file.write_bytes(data)


def header(run: Path, r: random.Random) -> None:
    """Set fields of the header to extremes."""
    file = _some_file(run, r)
    data = bytearray(file.read_bytes())
    raw = np.frombuffer(data, layout.HEADER, count=1)
    names = [n for n in raw.dtype.names or () if n not in ("magic", "chunks", "start", "end")]
    for name in r.sample(names, r.choice([1, 1, 2])):
        kind = raw.dtype[name]
        if kind.kind in "iu":
            info = np.iinfo(kind)
            raw[name] = r.choice([info.min, info.max, 0, 1, 2, 7, info.max // 2, r.randrange(info.max)])
        else:
            raw[name] = r.randbytes(kind.itemsize)
    for anchor in r.sample(["start", "end"], r.randrange(3)):
        for name in ("ticks", "monotonic_ns", "realtime_ns"):
            raw[anchor][name] = r.choice([0, 2**64 - 1, 2**63, r.getrandbits(64), 10**18])
    file.write_bytes(data)


def chunks(run: Path, r: random.Random) -> None:
    """Lie in the chunk table."""
    file = _some_file(run, r)
    data = bytearray(file.read_bytes())
    raw = np.frombuffer(data, layout.HEADER, count=1)
    table = raw["chunks"][0]
    count = int(raw["chunk_count"][0])
    for _ in range(r.choice([1, 2, 5])):
        row = r.randrange(min(count + 1, 156))
        field = r.choice(["kind", "thread", "pages", "offset", "used"])
        limit = int(np.iinfo(layout.CHUNK[field]).max)
        table[field][row] = r.choice([0, 1, 5, limit, 4096, 8192, len(data), r.randrange(limit), 2**31]) & limit
    if r.random() < 0.5:
        raw["chunk_count"] = r.choice([0, 156, 157, 2**32 - 1, count + 1])
    if r.random() < 0.3:
        table["kind"][min(count, 155)] = 5
        table["offset"][min(count, 155)] = r.choice([0, 4096, 8192])
        table["used"][min(count, 155)] = r.choice([1, 2**60])
        table["pages"][min(count, 155)] = r.choice([1, 2**32 - 1])
    file.write_bytes(data)


def switches(run: Path, r: random.Random) -> None:
    """Switches of tasks full of extremes."""
    b = Builder(ranks=2, path=run / "other", functions=some_functions())
    for rank in b.ranks:
        for _ in range(r.choice([1, 20])):
            rank.send(0, tag=1)
            rank.switch_task(r.choice([0, 1, 7, 2**63 - 1, 2**63, 2**64 - 1]), parent=r.choice([0, 1, 2**64 - 1]),
                        site=r.choice([0, 1, 2**32 - 1]), kind=r.choice([0, 1, 2, 3, 4, 2**32 - 1]),
                        until=r.choice([0, 0, 1, 2**32 - 1]), name=r.choice(["", "x"]))  # fmt: skip
            if r.random() < 0.1:
                rank._switches[0][-1] = (r.choice([0, 2**63, 2**64 - 1]), *rank._switches[0][-1][1:])
        rank.define_task(r.choice(list(Def)), r.randbytes(r.choice([0, 1, 5, 40])))
    _replace(run, b)


def slots(run: Path, r: random.Random) -> None:
    """Events full of extremes."""
    b = Builder(ranks=2, path=run / "other", functions=some_functions())
    rows = np.zeros(r.choice([1, 50]), layout.EVENT)
    for name in layout.EVENT.names or ():
        info = np.iinfo(layout.EVENT[name])
        picks = [x for x in (info.min, info.max, 0, 1, 2, 3, 256, 257) if x <= info.max]
        rows[name] = [r.choice([*picks, r.randrange(info.max)]) if r.random() < 0.7 else 0 for _ in rows]
    ids = [f.id for f in b.functions]
    rows["function"] = [r.choice(ids) for _ in rows]
    if r.random() < 0.7:
        rows["result"] = [r.randrange(64) for _ in rows]
    for rank in b.ranks:
        rank.send(0)
        rank.append_tails(r.randbytes(r.choice([0, 3, 200])))
        rank.append(rows)
    _replace(run, b)


def _replace(run: Path, b: Builder) -> None:
    b.write()
    for folder in ("ranks", "tasks"):
        shutil.rmtree(run / folder)
        if (run / "other" / folder).exists():
            (run / "other" / folder).rename(run / folder)
    shutil.copy(run / "other" / "functions.json", run)
    shutil.rmtree(run / "other")


def hostile_definitions(run: Path, r: random.Random) -> None:
    """Definitions that announce what they do not hold, nest without end, or refer to themselves."""
    b = Builder(ranks=2, path=run / "other", functions=some_functions())
    rank = b.ranks[0]
    huge = [2**63, 2**64 - 1, 2**31, 10**9, 0, 1]
    for id in range(256, 256 + r.choice([1, 20, 400])):
        kind = r.choice(list(Def))
        if r.random() < 0.4:
            child = r.choice([id, id - 1, id + 1, 4])
            ints = [r.choice([2, 2, 3, 2**31, -1, 2**62]) for _ in range(r.choice([0, 1, 3, 5]))]
            types = [child] * r.choice([0, 1, 2, 4])
            body = (
                encode_unsigned(id)
                + encode_unsigned(r.choice(huge))
                + encode_signed(-5)
                + encode_signed(9)
                + encode_unsigned(r.randrange(25))
            )
            body += encode_unsigned(len(ints)) + b"".join(map(encode_signed, ints)) + encode_unsigned(0)
            rank.define(Def.DATATYPE, body + encode_unsigned(len(types)) + b"".join(map(encode_unsigned, types)))
        elif r.random() < 0.4:
            runs = [
                (r.choice([0, 0, 1, 0xFFFF]), r.choice([0, 1, 2**31]), r.choice([0, 1, -1]), r.choice([1, 2, *huge]))
            ]
            members = encode_unsigned(1) + b"".join(
                encode_unsigned(w) + encode_unsigned(f) + encode_signed(s) + encode_unsigned(n) for w, f, s, n in runs
            )
            body = (
                encode_unsigned(id)
                + encode_unsigned(r.choice([2, id, id - 1]))
                + encode_unsigned(112)
                + encode_unsigned(r.choice(huge))
                + encode_unsigned(r.randrange(2))
            )
            rank.define(Def.COMM, body + encode_signed(0) + encode_string("k") + members + members)
        elif r.random() < 0.5:
            rank.define(kind, r.randbytes(r.choice([0, 1, 5, 40])))
        else:
            rank.define(
                kind,
                encode_unsigned(id)
                + encode_unsigned(r.choice(huge))
                + encode_unsigned(r.choice(huge))
                + b"\xff" * r.randrange(12),
            )
        rank.send(1, datatype=id, comm=r.choice([2, id]))
    if r.random() < 0.3:
        rank.define(Def.ARGV, encode_unsigned(2**60))
        rank._definitions += encode_unsigned(3) + encode_unsigned(2**50)
    rank.state = State.RUNNING
    _replace(run, b)


def deep_types(run: Path, r: random.Random) -> None:
    """Types that double (or multiply) at each of many levels."""
    b = Builder(ranks=1, path=run / "other", functions=some_functions())
    rank = b.ranks[0]
    made: object = "MPI_INT"
    mixed = r.random() < 0.5
    for _ in range(r.choice([30, 150, 3000])):
        if mixed:
            made = rank.define_datatype(
                "STRUCT", types=[made, "MPI_DOUBLE", made], integers=[3, 1, 1, 1], size=1, extent=1
            )  # type: ignore[list-item]
        else:
            made = rank.define_datatype("CONTIGUOUS", types=[made], integers=[2**31 - 1], size=1, extent=1)  # type: ignore[list-item]
    rank.send(0, datatype=made)  # type: ignore[arg-type]
    _replace(run, b)


def json_files(run: Path, r: random.Random) -> None:
    """Damage the JSON files, by letter or by value."""
    file = run / r.choice(["run.json", "functions.json", "sites.json"])
    text = bytearray(file.read_bytes())
    what = r.randrange(6)
    if what == 0:
        text = bytearray(b"[" * 200_000)
    elif what == 1:
        del text[r.randrange(len(text)) :]
    elif what == 2:
        text[r.randrange(len(text))] = r.randrange(256)
    else:
        value = json.loads(text)
        wrong = r.choice([None, -1, 2**70, "x", [], {}, [None], 1e308, True, [[["a"]]], {"a": {"1": 2}}])
        key = r.choice(list(value))
        value[key] = wrong
        if file.name == "functions.json" and what > 3:
            value = json.loads(text)
            entry = r.choice(value["functions"])
            entry[r.choice(list(entry))] = wrong
            if isinstance(entry.get("parameters"), list) and entry["parameters"]:
                parameter = r.choice(entry["parameters"])
                if isinstance(parameter, dict):
                    parameter[r.choice(list(parameter))] = wrong
        text = bytearray(json.dumps(value).encode())
    file.write_bytes(text)


def strangers(run: Path, r: random.Random) -> None:
    """Links, pipes, directories, empty and foreign files where records should be."""
    file = _some_rank(run, r)
    what = r.choice([0, 1, 2, 3, 4, 5, 6, 7, 7, 7])
    target = file.with_name("0-000777.weft")
    if what == 0:
        target.symlink_to("/etc/passwd")
    elif what == 1:
        os.mkfifo(target)
    elif what == 2:
        target.mkdir()
    elif what == 3:
        target.write_bytes(r.choice([b"", b"\0" * 5000, b"WEFTRANK", b"#!/bin/sh\n" * 1000]))
    elif what == 4:
        shutil.copy(file, target)
    elif what == 5:
        file.unlink()
    elif what == 6:
        shutil.rmtree(run / "ranks")
        (run / "ranks").symlink_to(r.choice(["/etc", "/nowhere", "ranks"]))
    else:
        name = r.choice(sorted(path for path in run.rglob("*") if path.is_file()))
        name.unlink()
        if r.random() < 0.3:
            os.mkfifo(name)
        else:
            name.symlink_to(r.choice(["/etc/passwd", "/dev/zero", name.name, "/proc/self/mem"]))


def packs(run: Path, r: random.Random) -> None:
    """Put the records into a pack, and damage that anywhere, in its beginning, or in its index, written anew."""
    made = packing.pack_records(run, lambda _: True)
    file = run / "ranks" / made.name
    data = bytearray(file.read_bytes())
    head, tail = np.frombuffer(data, packed.HEAD, count=1), b""
    what = r.randrange(5)
    if what == 0:
        file.write_bytes(data[: r.randrange(len(data))])
        return
    if what == 1:
        for _ in range(r.choice([1, 3, 30])):
            data[r.randrange(len(data))] ^= 1 << r.randrange(8)
    elif what == 2:
        name = r.choice([n for n in packed.HEAD.names or () if n != "magic"])
        head[name] = r.choice([0, 1, 2**32 - 1, 2**63, 2**64 - 1, len(data), r.randrange(1000)]) & int(
            np.iinfo(packed.HEAD[name]).max
        )
    else:
        at, stored, ranks = int(head["index"][0]), int(head["stored"][0]), int(head["ranks"][0])
        index = bytearray(zlib.decompress(data[at : at + stored]))
        rows = np.frombuffer(index, packed.RANK, count=ranks)
        streams = np.frombuffer(index, packed.STREAM, offset=rows.nbytes)
        for _ in range(r.choice([1, 2, 5])):
            table = r.choice([rows, streams, streams])
            name = r.choice(table.dtype.names or ())
            if table.dtype[name].kind == "u":
                limit = int(np.iinfo(table.dtype[name]).max)
                picks = [0, 1, 3, 5, 10, len(data), 2**31, 2**40, 2**63, limit]
                table[name][r.randrange(len(table))] = r.choice(picks) & limit
            else:
                table[name][r.randrange(len(table))] = np.frombuffer(
                    r.randbytes(table.dtype[name].itemsize), table.dtype[name]
                )[0]
        tail = zlib.compress(bytes(index))
        head["index"], head["stored"], head["size"] = len(data), len(tail), r.choice([len(index), len(index), 2**28, 7])
    file.write_bytes(data + tail)


DAMAGE: list[Callable[[Path, random.Random], None]] = [
    truncate, flip_anywhere, flip_anywhere, garbage, header, chunks, chunks, switches, slots, hostile_definitions,
    hostile_definitions, deep_types, json_files, strangers, packs, packs,
]  # fmt: skip
