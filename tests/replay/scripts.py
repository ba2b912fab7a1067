"""Random message programs as scripts (programs/script.c and script.py run them), and their causal past the slow way.

A script is made by playing it: its calls in the order in which they were drawn are one way in which the run can go,
in which every message is sent before it is received. Whatever a wildcard takes, the first call of that order that is
still to come can therefore always go on, so no script can hang.

`past` is the brute force: nodes are the start and the end of each call, edges what MPI says must be before what. It
knows nothing of weft: which message went where is what the program itself printed.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

Call = tuple[int, int]
"""(rank, line): a call of the script by its rank and its number among the rank's lines."""
Node = tuple[int, int, bool]
"""(rank, line, whether it is the end of the call)."""

WILD, BIG, SMALL = 9, 30000, (1, 200)
COLLECTIVES = ("barrier", "bcast", "allreduce", "reduce", "gather", "scan")
MPI_NAMES = {
    "split": "MPI_Comm_split", "send": "MPI_Send", "ssend": "MPI_Ssend", "isend": "MPI_Isend", "recv": "MPI_Recv",
    "irecv": "MPI_Irecv", "waitany": "MPI_Waitany", "waitall": "MPI_Waitall", "probe": "MPI_Probe",
    "poll": "MPI_Iprobe", "take": "MPI_Recv", "mprobe": "MPI_Mprobe", "mrecv": "MPI_Mrecv",
    **{name: f"MPI_{name.capitalize()}" for name in COLLECTIVES},
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One call: `numbers` as script.c reads them."""

    op: str
    numbers: tuple[int, ...] = ()

    @property
    def comm(self) -> int:
        return self.numbers[0]


@dataclass
class Script:
    """What every rank does."""

    ranks: int
    lines: list[list[Line]] = field(default_factory=list)
    order: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lines = [[] for _ in range(self.ranks)]

    def add(self, rank: int, op: str, *numbers: int) -> Call:
        self.lines[rank].append(Line(op, numbers))
        self.order.append((rank, len(self.lines[rank]) - 1))
        return self.order[-1]

    def text(self) -> str:
        """The file that the program reads."""
        rows = ((rank, self.lines[rank][line]) for rank, line in self.order)
        return "".join(f"{rank} {line.op} {' '.join(map(str, line.numbers))}\n" for rank, line in rows)

    def members(self, comm: int) -> list[int]:
        """World ranks of a communicator, in its order. 1: all but the last, backwards."""
        return list(range(self.ranks)) if comm == 0 else list(range(self.ranks - 1))[::-1]


class _Play:
    """Draws a script."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.script = Script(self.rng.choice([3, 4]))
        self.waiting: dict[int, dict[tuple[int, int, int], int]] = defaultdict(lambda: defaultdict(int))
        """By receiver: messages sent and not yet received, by (comm, source or -1, tag)."""
        self.pending = [0] * self.script.ranks
        self.posted = [0] * self.script.ranks
        self.messages = 0

    def draw(self, steps: int) -> Script:
        for rank in range(self.script.ranks):
            self.script.add(rank, "split", 0, int(rank < self.script.ranks - 1))
        for _ in range(steps):
            self.rng.choices(
                [self.send, self.receive, self.meet, self.prepost, self.wait, self.collective], [5, 5, 1, 2, 2, 1]
            )[0]()
        for rank in range(self.script.ranks):
            while any(self.waiting[rank].values()):
                self.receive(rank)
            if self.posted[rank]:
                self.script.add(rank, "waitall", 0)
        return self.script

    def pair(self) -> tuple[int, int, int, int, int]:
        """Communicator, then source and destination as world ranks and as ranks there."""
        comm = self.rng.randrange(2)
        members = self.script.members(comm)
        source, dest = self.rng.sample(range(len(members)), 2)
        return comm, members[source], members[dest], source, dest

    def number(self) -> int:
        self.messages += 1
        return self.messages

    def send_on(self, comm: int, sender: int, dest: int, tag: int, count: int, *, modes: Iterable[str]) -> None:
        op = self.rng.choice(list(modes))
        self.script.add(sender, op, comm, dest, tag, count, self.number())
        if op == "isend":
            self.pending[sender] += 1
            self.posted[sender] += 1

    def send(self) -> None:
        comm, sender, receiver, source, dest = self.pair()
        tag = self.rng.choice([1, 2, WILD, WILD])
        self.send_on(comm, sender, dest, tag, self.rng.choice(SMALL), modes=["send", "send", "isend"])
        self.waiting[receiver][comm, -1 if tag == WILD else source, tag] += 1

    def receive(self, rank: int | None = None) -> None:
        ranks = [r for r, channels in self.waiting.items() if any(channels.values())]
        if not ranks:
            return
        rank = self.rng.choice(ranks) if rank is None else rank
        channel = self.rng.choice(sorted(c for c, n in self.waiting[rank].items() if n))
        self.waiting[rank][channel] -= 1
        self.take(rank, channel, self.rng.choice(["recv", "recv", "irecv", "probe", "poll", "mprobe"]))

    def take(self, rank: int, channel: tuple[int, int, int], op: str) -> None:
        self.script.add(rank, op, *channel)
        if op == "irecv":
            self.pending[rank] += 1
            self.posted[rank] += 1
        elif op in ("probe", "poll"):
            self.script.add(rank, "take", channel[0])
        elif op == "mprobe":
            self.script.add(rank, "mrecv", channel[0])

    def meet(self) -> None:
        """A message that may not leave before its receive is there, on a channel of its own."""
        comm, sender, receiver, source, dest = self.pair()
        tag = 100 + self.messages
        if self.rng.random() < 0.5:
            self.send_on(comm, sender, dest, tag, BIG, modes=["send", "isend"])
        else:
            self.send_on(comm, sender, dest, tag, self.rng.choice([1, BIG]), modes=["ssend"])
        self.take(receiver, (comm, source, tag), self.rng.choice(["recv", "mprobe"]))

    def prepost(self) -> None:
        comm, sender, receiver, source, dest = self.pair()
        tag = self.rng.choice([1, WILD])
        self.take(receiver, (comm, -1 if tag == WILD else source, tag), "irecv")
        self.send_on(comm, sender, dest, tag, self.rng.choice(SMALL), modes=["send", "isend"])

    def wait(self) -> None:
        ranks = [r for r, n in enumerate(self.pending) if n]
        if not ranks:
            return
        rank = self.rng.choice(ranks)
        if self.rng.random() < 0.6:
            self.script.add(rank, "waitany", 0)
            self.pending[rank] -= 1
        else:
            self.script.add(rank, "waitall", 0)
            self.pending[rank] = self.posted[rank] = 0

    def collective(self) -> None:
        comm, op = self.rng.randrange(2), self.rng.choice(COLLECTIVES)
        members = self.script.members(comm)
        root = self.rng.randrange(len(members))
        for rank in self.rng.sample(members, len(members)):
            self.script.add(rank, op, comm, root)


def random_script(seed: int, steps: int = 30) -> Script:
    """A script of 3 or 4 ranks that ends whatever its wildcards take."""
    return _Play(seed).draw(steps)


# The causal past, the slow way


@dataclass(frozen=True)
class Received:
    """A message as the program told of it: where it was sent, asked for, and told."""

    sent: Call
    posted: Call
    told: Call
    accepts: tuple[int, int, int]
    """Communicator, source (-1: any) and tag that were asked for."""
    is_from: int


def received(script: Script, printed: str) -> list[Received]:
    """Every message that was received, from what the program printed."""
    sent: dict[int, Call] = {}
    slots: dict[int, list[Call]] = defaultdict(list)
    slot_of: dict[tuple[int, int], list[Call]] = {}  # what the slots are at each line of a rank
    for rank, line in script.order:
        call = script.lines[rank][line]
        if call.op in ("send", "ssend", "isend"):
            sent[call.numbers[4]] = (rank, line)
        if call.op in ("isend", "irecv"):
            slots[rank].append((rank, line))
        slot_of[rank, line] = list(slots[rank])
        if call.op == "waitall":
            slots[rank].clear()
    found = []
    for row in printed.splitlines():
        rank, line, slot, number = map(int, row.split())
        told = (rank, line)
        posted = slot_of[told][slot] if slot >= 0 else told
        op = script.lines[rank][line].op
        if op in ("mrecv", "take"):
            posted = (rank, line - 1)  # a probe comes right before it
        asked = script.lines[posted[0]][posted[1]].numbers
        sender = sent[number]
        source = script.members(asked[0]).index(sender[0])
        found.append(Received(sender, posted, told, (asked[0], asked[1], asked[2]), source))
    return found


def edges(script: Script, printed: str, *, lean: bool = False) -> dict[Node, set[Node]]:
    """By node what must be right before it; a collective ends nowhere before all members have begun it.

    `lean`: only what no MPI can do without, even where every wildcard asks for the source that it got.
    """
    before: dict[Node, set[Node]] = defaultdict(set)
    for rank, lines in enumerate(script.lines):
        for line in range(len(lines)):
            before[rank, line, True].add((rank, line, False))
            if line:
                before[rank, line, False].add((rank, line - 1, True))
    messages = received(script, printed)
    for m in messages:
        told = m.told
        before[*told, True].add((*m.sent, False))
        if script.lines[m.posted[0]][m.posted[1]].op in ("probe", "poll", "mprobe"):
            before[*m.posted, True].add((*m.sent, False))
        if script.lines[m.sent[0]][m.sent[1]].op == "ssend":
            matched = script.lines[m.posted[0]][m.posted[1]].op == "mprobe"  # which is no receive yet
            before[*m.sent, True].add((*(m.told if matched else m.posted), False))
        for other in messages:  # a receive posted earlier would have got it, had it not got a message of its own
            earlier = other.posted[0] == m.posted[0] and other.posted[1] < m.posted[1]
            fits = other.accepts[0] == m.accepts[0] and other.accepts[1] in (-1, m.is_from)
            fits = fits and (not lean or other.is_from == m.is_from)
            if earlier and fits and other.accepts[2] == m.accepts[2]:
                before[*told, True].add((*other.sent, False))
                if m.posted != told and script.lines[m.posted[0]][m.posted[1]].op != "irecv":
                    before[*m.posted, True].add((*other.sent, False))
    for members, rooted in collectives(script):
        for a in members:
            for b in members:
                op, root = script.lines[a[0]][a[1]].op, rooted
                needed = (
                    not lean
                    or op in ("split", "barrier", "allreduce")
                    or (op == "bcast" and a[0] == root)
                    or (op in ("reduce", "gather") and b[0] == root)
                    or (op == "scan" and members.index(a) <= members.index(b))
                )
                if needed:
                    before[*b, True].add((*a, False))
    return before


def collectives(script: Script) -> list[tuple[list[Call], int]]:
    """The calls of each collective in order of the communicator, and the world rank of its root."""
    counts: dict[tuple[int, int], int] = defaultdict(int)
    found: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for rank, line in script.order:
        call = script.lines[rank][line]
        if call.op in COLLECTIVES or call.op == "split":
            counts[rank, call.comm] += 1
            found[call.comm, counts[rank, call.comm]][rank] = line
    out = []
    for (comm, _), lines in found.items():
        members = [(rank, lines[rank]) for rank in script.members(comm)]
        first = script.lines[members[0][0]][members[0][1]]
        out.append((members, script.members(comm)[first.numbers[1]] if first.op != "split" else 0))
    return out


def past(before: dict[Node, set[Node]], point: Call) -> set[Call]:
    """The calls that must have been begun so that the call `point` can begin."""
    seen: set[Node] = set()
    stack: list[Node] = [(*point, False)]
    while stack:
        for node in before[stack.pop()]:
            if node not in seen:
                seen.add(node)
                stack.append(node)
    return {(rank, line) for rank, line, _ in seen}
