"""Random programs that read and write files, right and wrong, with barriers between what they do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.trace import Trace
from weft.trace.builder import Builder
from weft.trace.layout import Def
from weft.trace.varint import encode_string, encode_unsigned

READ_WRITE, APPEND = 8, 128
SET, CURRENT, END = 600, 602, 604


class Program:
    """Some ranks, with files that they open together."""

    def __init__(self, rng: random.Random, path: Path, *, wrong: float, ranks: int = 0) -> None:
        self.rng, self.wrong = rng, wrong
        self.b = Builder(ranks=ranks or rng.randint(2, 4), path=path)
        for r in self.b.ranks:
            r.init()
        self.n = len(self.b.ranks)
        self.files: list[dict[int, int]] = []
        self.parted: set[int] = set()
        """The files of which each rank sees a part of its own."""
        for _ in range(2):
            self.open()

    def errs(self) -> bool:
        """Whether something is done wrong here."""
        return self.rng.random() < self.wrong

    def open(self) -> int:
        """Open a file on all ranks."""
        made = {}
        amode = READ_WRITE | (APPEND if self.rng.random() < 0.1 else 0)
        for r in self.b.ranks:
            id = made[r.index] = r.new_id("FILE")
            fields = (
                encode_unsigned(id)
                + encode_unsigned(self.b.world.ids[r.index])
                + encode_unsigned(amode)
                + encode_string(f"/tmp/f{len(self.files)}")
            )
            r.define(Def.FILE, fields)
            r.call("MPI_File_open", comm=self.b.world, filename="f", amode=amode, info=1, fh=id)
        self.files.append(made)
        return len(self.files) - 1

    def call(self, me: int, name: str, file: int, **kw: Any) -> None:
        line = self.rng.randrange(8) + 10 * (sum(map(ord, name)) % 97)
        self.b.ranks[me].call(f"MPI_{name}", fh=self.files[file][me], site=("a.c", line, "f"), **kw)

    def each(self, name: str, file: int, **kw: Any) -> None:
        for me in range(self.n):
            self.call(me, name, file, **kw)

    def move(self, me: int, file: int, name: str, at: int | None = None) -> None:
        """Read or write some bytes; each rank has a part of the file of its own, but where something is wrong."""
        more = {} if at is None else {"offset": at}
        self.call(me, name, file, buf=0x10_0000_0000 + 4096 * self.rng.randrange(1 << 20), count=4,
                  datatype="MPI_INT", **more)  # fmt: skip

    def place(self, me: int) -> int:
        return 64 * (self.rng.randrange(2) if self.errs() else me)

    def barrier(self) -> None:
        for r in self.b.ranks:
            r.barrier()

    # What is done

    def at_offsets(self, file: int) -> None:
        for me in range(self.n):
            if self.rng.random() < 0.7:
                self.move(me, file, self.rng.choice(("File_write_at", "File_read_at")), self.place(me))

    def collective(self, file: int) -> None:
        for me in range(self.n):
            self.move(me, file, "File_write_at_all", self.place(me))

    def halves(self, file: int) -> None:
        between = self.rng.random() < 0.3
        for me in range(self.n):
            self.move(me, file, "File_write_at_all_begin", self.place(me))
        if between:
            self.barrier()
        self.each("File_write_at_all_end", file, buf=0)

    def nonblocking(self, file: int) -> None:
        me = self.rng.randrange(self.n)
        rank = self.b.ranks[me]
        id = rank.new_id("REQUEST")
        rank.call("MPI_File_iwrite_at", fh=self.files[file][me], offset=self.place(me), buf=0x20_0000_0000, count=4,
                  datatype="MPI_INT", request=id, site=("a.c", 900, "f"))  # fmt: skip
        if self.rng.random() < 0.3:
            self.barrier()
        rank.call("MPI_Wait", request=id)

    def viewed(self, file: int) -> None:
        """Each rank sees its own part, and reads or writes on from where it stands."""
        self.synced(file)
        self.parted.add(file)
        for me in range(self.n):
            disp = 4096 * (self.rng.randrange(2) if self.errs() else me)
            self.call(me, "File_set_view", file, disp=disp, etype="MPI_INT", filetype="MPI_INT", datarep="native",
                      info=1)  # fmt: skip
        self.on(file)

    def on(self, file: int) -> None:
        if file not in self.parted and not self.errs():
            return
        for me in range(self.n):
            for _ in range(self.rng.randrange(3)):
                self.move(me, file, self.rng.choice(("File_write", "File_read")))

    def sought(self, file: int) -> None:
        if file not in self.parted and not self.errs():
            return
        for me in range(self.n):
            whence = self.rng.choice((SET, SET, SET, CURRENT, END))
            self.call(me, "File_seek", file, offset=self.rng.randrange(3), whence=whence)
            if self.rng.random() < 0.5:
                self.move(me, file, self.rng.choice(("File_write", "File_read")))

    def synced(self, file: int) -> None:
        if not self.errs():
            self.each("File_sync", file)

    def atomic(self, file: int) -> None:
        self.each("File_set_atomicity", file, flag=int(self.rng.random() < 0.5))

    def shared(self, file: int) -> None:
        for me in range(self.n):
            self.move(me, file, "File_write_shared")

    def anew(self, file: int) -> None:
        self.each("File_close", file)
        made = self.open()
        self.files[file] = self.files.pop(made)
        self.parted.discard(file)


STEPS: tuple[Callable[[Program, int], None], ...] = (
    Program.at_offsets, Program.at_offsets, Program.collective, Program.halves, Program.nonblocking, Program.viewed,
    Program.on, Program.sought, Program.synced, Program.synced, Program.synced, Program.atomic, Program.shared,
    Program.anew, Program.anew,
)  # fmt: skip


def of_files(rng: random.Random, path: Path, *, wrong: float = 0.1) -> Trace:
    """A random program; with `wrong` of 0 its ranks keep apart."""
    program = Program(rng, path, wrong=wrong)
    for _ in range(rng.randint(8, 40)):
        rng.choice(STEPS)(program, rng.randrange(2))
        if rng.random() < 0.4:
            for file in range(2):
                program.synced(file)
        for _ in range(rng.choice((0, 1, 1, 3))):
            program.barrier()
    for file in range(2):
        program.each("File_close", file)
    for r in program.b.ranks:
        r.finalize()
    return program.b.open()
