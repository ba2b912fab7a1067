"""Random programs of one-sided communication, right and wrong, with barriers between what they do."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.trace import Trace
from weft.trace.builder import Builder
from weft.trace.layout import Def
from weft.trace.varint import encode_unsigned

SHARED, EXCLUSIVE = 2, 1
NO_PUT, NO_PRECEDE, NO_SUCCEED = 4, 8, 16
OPERATIONS = ("Put", "Put", "Get", "Accumulate")


class Program:
    """Some ranks with windows, each of which is used in one way at a time."""

    def __init__(self, rng: random.Random, path: Path, *, wrong: float) -> None:
        self.rng, self.wrong = rng, wrong
        self.b = Builder(ranks=rng.randint(2, 4), path=path)
        self.n = len(self.b.ranks)
        for r in self.b.ranks:
            r.init()
        self.groups: dict[tuple[int, tuple[int, ...]], int] = {}
        self.wins = [self.b.window() for _ in range(rng.randint(1, 2))]
        self.held: set[int] = set()
        self.fences = [0] * len(self.wins)
        self.denied: set[int] = set()
        self.turn = 0

    def errs(self) -> bool:
        """Whether something is done wrong here."""
        return self.rng.random() < self.wrong

    def call(self, me: int, name: str, win: int, **kw: Any) -> None:
        line = self.rng.randrange(12) + 20 * (sum(map(ord, name)) % 97)
        self.b.ranks[me].call(f"MPI_{name}", win=self.wins[win][me], site=("a.c", line, "f"), **kw)

    def each(self, name: str, win: int, **kw: Any) -> None:
        for me in range(self.n):
            self.call(me, name, win, **kw)

    def op(self, me: int, win: int, target: int, *, at: int | None = None) -> None:
        """Each origin has bytes of its own at each target, but where something is wrong."""
        name = self.rng.choice(OPERATIONS)
        self.turn += 1
        place = 64 * me + 256 * (self.turn % 15) if at is None else at
        if self.errs():
            place = self.rng.choice((64, 64, 64, 64, 64 * self.rng.randrange(self.n), 5000))
        origin = 0x10_0000_0000 + 64 * self.rng.randrange(1 << 20)
        more = {"op": 1} if name == "Accumulate" else {}
        self.call(
            me, name, win, origin_addr=origin, origin_count=4, origin_datatype="MPI_INT", target_rank=target,
            target_disp=place, target_count=4, target_datatype="MPI_INT", **more,
        )  # fmt: skip

    def some_ops(self, win: int, me: int, target: int | None = None) -> None:
        for _ in range(self.rng.randrange(3)):
            self.op(me, win, self.rng.randrange(self.n) if target is None else target)

    def barrier(self) -> None:
        for r in self.b.ranks:
            r.barrier()

    # What is done, by all ranks together

    def fence(self, win: int, asserts: int = 0) -> None:
        self.each("Win_fence", win, **{"assert": asserts})
        self.fences[win] += 1
        (self.denied.add if asserts == NO_SUCCEED else self.denied.discard)(win)

    def fenced(self, win: int) -> None:
        """Fences with operations between; what the owner itself stores; sometimes a barrier inside."""
        rng = self.rng
        if rng.random() < 0.5 or not self.fences[win] or win in self.denied:
            self.fence(win, rng.choice((0, 0, NO_PRECEDE)))
        for _ in range(rng.randint(1, 3)):
            for me in range(self.n):
                self.some_ops(win, me)
            if rng.random() < 0.2:
                self.barrier()
                self.some_ops(win, rng.randrange(self.n))
            if rng.random() < 0.3:
                me, low = rng.randrange(self.n), rng.choice((256, 64 * rng.randrange(self.n)))
                low = low if self.errs() or rng.random() < 0.1 else 4088
                numbers = (self.wins[win][me], self.fences[win], 1, low, 8, int(rng.random() < 0.3))
                self.b.ranks[me].define(Def.STORED, b"".join(map(encode_unsigned, numbers)))
            self.fence(win, rng.choice((NO_PUT, NO_SUCCEED) if self.errs() else (0,)))
        if rng.random() < 0.4:
            self.fence(win, NO_SUCCEED)

    def after_fences(self, win: int) -> None:
        """The last fence says that no epoch of fences follows."""
        if self.fences[win] and win not in self.denied:
            self.fence(win, NO_SUCCEED)

    def locked(self, win: int) -> None:
        for me in range(self.n):
            if self.rng.random() < 0.5:
                target = self.rng.randrange(self.n)
                self.call(me, "Win_lock", win, rank=target, lock_type=self.rng.choice((SHARED, EXCLUSIVE)))
                self.some_ops(win, me, target)
                if self.rng.random() < 0.2:
                    self.barrier()
                if not self.errs():
                    self.call(me, "Win_unlock", win, rank=target)

    def passive(self, win: int) -> None:
        """A lock of all that is held, with flushes."""
        if win not in self.held:
            self.each("Win_lock_all", win)
            self.held.add(win)
        for _ in range(self.rng.randint(1, 3)):
            for me in range(self.n):
                self.some_ops(win, me)
                if not self.errs():
                    self.call(me, "Win_flush_all", win)
                elif self.rng.random() < 0.5:
                    self.call(me, "Win_flush_local_all", win)
            self.barrier()
        if self.rng.random() < 0.3:
            self.let_go(win)

    def let_go(self, win: int) -> None:
        if win in self.held and not self.errs():
            self.each("Win_unlock_all", win)
        self.held.discard(win)

    def posted(self, win: int) -> None:
        """A start of one rank that another one's post lets in."""
        origin, target = self.rng.sample(range(self.n), 2)
        self.call(target, "Win_post", win, group=self.group(target, (origin,)), **{"assert": 0})
        self.call(origin, "Win_start", win, group=self.group(origin, (target,)), **{"assert": 0})
        for _ in range(self.rng.randint(1, 2)):
            self.op(origin, win, target)
        if self.rng.random() < 0.3:
            self.barrier()
        self.call(origin, "Win_complete", win)
        if self.rng.random() < 0.2:
            self.barrier()
        if not self.errs():
            self.call(target, "Win_wait", win)

    def group(self, me: int, members: tuple[int, ...]) -> int:
        key = me, members
        if key not in self.groups:
            rank = self.b.ranks[me]
            id = self.groups[key] = rank.new_id("GROUP")
            rank.define(Def.GROUP, b"".join(map(encode_unsigned, (id, len(members), *(
                n for member in members for n in (0, member, 2, 1))))))  # fmt: skip
        return self.groups[key]

    def from_its_memory(self, win: int) -> None:
        """A message out of a window's own memory."""
        one, two = self.rng.sample(range(self.n), 2)
        at = 64 * self.rng.randrange(self.n) if self.errs() else 4080
        self.b.ranks[one].send(two, 3, count=4, buffer=0x100000 * (one + 1) + at, site=("a.c", 500, "f"))
        self.b.ranks[two].recv(one, 3, count=4)

    def anew(self, win: int) -> None:
        """The window is freed, and another one made."""
        self.let_go(win)
        self.each("Win_free", win)
        self.wins[win] = self.b.window()
        self.fences[win] = 0
        self.denied.discard(win)

    def attached(self, win: int) -> None:
        """A window without memory of its own, to which its ranks attach some."""
        self.let_go(win)
        self.each("Win_free", win)
        self.wins[win] = self.b.window(flavor=2)
        self.fences[win] = 0
        self.denied.discard(win)
        for me in range(self.n):
            self.b.ranks[me].call("MPI_Win_attach", win=self.wins[win][me], base=0x5000, size=1024)
        if self.rng.random() < 0.5:
            self.barrier()
        self.each("Win_lock_all", win)
        for me in range(self.n):
            self.op(me, win, self.rng.randrange(self.n), at=0x5000 + 64 * me)
        if self.rng.random() < 0.5:
            self.each("Win_flush_all", win)
            self.barrier()
            for me in range(self.n):
                self.op(me, win, self.rng.randrange(self.n), at=0x5000 + 64 * me)
        self.each("Win_unlock_all", win)
        self.barrier()
        self.each("Win_free", win)
        self.wins[win] = self.b.window()

    def alone(self, win: int) -> None:
        """A window of two ranks only."""
        if self.n < 3:
            return
        comms = self.b.split([0, 0] + [1] * (self.n - 2))
        made = self.b.window(comms[0])
        for _ in range(2):
            for me in (0, 1):
                self.b.ranks[me].call("MPI_Win_fence", win=made[me], **{"assert": 0})
            if self.rng.random() < 0.5:
                self.barrier()
        for me in (0, 1):
            self.b.ranks[me].call("MPI_Win_free", win=made[me])


STEPS: tuple[Callable[[Program, int], None], ...] = (
    Program.fenced, Program.fenced, Program.locked, Program.passive, Program.passive, Program.posted,
    Program.from_its_memory, Program.anew, Program.attached, Program.alone,
)  # fmt: skip


def one_sided(rng: random.Random, path: Path, *, wrong: float = 0.05) -> Trace:
    """A random program; with `wrong` of 0 nothing in it is."""
    program = Program(rng, path, wrong=wrong)
    usual = [rng.choice(STEPS) for _ in program.wins]
    for _ in range(rng.randint(5, 25)):
        win = rng.randrange(len(program.wins))
        step = rng.choice(STEPS) if rng.random() < 0.4 else usual[win]
        if step is not Program.passive and win in program.held and step is not Program.from_its_memory:
            program.let_go(win)
        if step in (Program.locked, Program.passive, Program.posted) and not program.errs():
            program.after_fences(win)
        step(program, win)
        for _ in range(rng.choice((0, 1, 1, 3))):
            program.barrier()
    for win in range(len(program.wins)):
        program.let_go(win)
        if not program.errs():
            program.each("Win_free", win)
    for r in program.b.ranks:
        r.finalize()
    return program.b.open()
