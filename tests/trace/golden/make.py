"""Makes the golden run of the present format version: `python make.py FOLDER`. A released one is never made again."""

import json
import sys
from pathlib import Path

import numpy as np

from weft.trace.builder import ANY, Builder, standard_functions
from weft.trace.layout import ACCESS, HASHED, TOUCH, AccessKind, EndingKind, HashSide, TouchKind

NAMES = """MPI_Send MPI_Recv MPI_Waitall MPI_Irecv MPI_Comm_split MPI_Allreduce MPI_Type_vector MPI_Iprobe
MPI_Comm_spawn MPI_Finalize""".split()


def make(path: Path) -> None:
    """A small run that uses every stream of level trace, and most definitions."""
    functions = dict(standard_functions())
    functions["functions"] = [f for f in functions["functions"] if f["name"] in NAMES]
    b = Builder(ranks=2, path=path, functions=functions)
    r0, r1 = b.ranks
    r0.send(1, tag=7, site=("step.py", 9, "exchange"), count=2**33)
    r1.recv(ANY, got=0, tag=7, count=2**33)
    request = r1.irecv(ANY, got=0, tag=8)
    vector = r0.type_vector(3, 2, 5, "MPI_INT")
    r0.send(1, tag=8, datatype=vector, thread=1, ticket=3)
    r1.iprobe(0, flag=False, polls=12)
    r1.waitall([request])
    pair = b.split([0, 0])
    for rank in b.ranks:
        rank.allreduce(comm=pair[0], op="MPI_MAX", error=rank.index)
    access = np.zeros(1, ACCESS)
    access["window"], access["end"], access["kind"], access["bytes"], access["result"] = 7, 5, AccessKind.FETCH, 8, 41
    r0.append_accesses(access)
    touch = np.zeros(1, TOUCH)
    touch["low"], touch["count"], touch["size"], touch["stride"], touch["event"] = 0x1000, 10, 8, 16, 2
    touch["kind"], touch["thread"] = TouchKind.WRITE, 1
    r1.append_touches(touch)
    hashed = np.zeros(2, HASHED)
    hashed["hash"], hashed["bytes"], hashed["event"], hashed["request"] = (0xABCD, 41), (2**33, 8), (0, 1), (0, 256)
    hashed["side"], hashed["kept"] = HashSide.RECEIVED, (0, 1)
    r1.append_hashes(hashed)
    r1.append_contents(b"8 bytes.")
    b.spawn([0, 1], 1, name="4711-1764160000000000000-1")
    r1.open.recv(0, tag=99, site=("step.py", 12, "finish"))
    r0.add_ending(
        EndingKind.EXCEPTION, name="KeyError", text="'missing'", traceback="Traceback (most recent call last):\n",
        who="Thread-1", python=[("step.py", 11, "finish")], thread=1,
    )  # fmt: skip
    r0.finalize(leaving=True)
    b.write()
    (path / "run.json").write_text(json.dumps(json.loads((path / "run.json").read_text()), indent=1))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
