"""The race set of random small programs equals that of a brute-force enumeration of all legal matchings.

The enumeration knows nothing of vector time: it plays every interleaving of the program that agrees with the recorded
matching, under the standard's two rules (MPI-4.1, 3.5: a message cannot be overtaken by a later one of its sender that
fits the same receive, a receive not by a later one that fits the same message), with sends that are buffered and sends
that wait for their receive, and notes each match that a wildcard could make instead of the recorded one.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from weft.match import match_operations
from weft.order import order_events
from weft.races import detect_races
from weft.trace import Trace
from weft.trace.builder import ANY, Builder, Request, standard_functions
from weft.trace.layout import ANY_TAG

PROGRAMS = int(os.environ.get("WEFT_RACE_PROGRAMS", "400"))
"""5,000 take four minutes of a processor: `make test-races`."""
NAMES = (
    "MPI_Send MPI_Ssend MPI_Issend MPI_Recv MPI_Irecv MPI_Wait MPI_Waitall MPI_Barrier MPI_Probe MPI_Mprobe MPI_Mrecv"
).split()
FUNCTIONS = {
    **standard_functions(),
    "functions": [f for f in standard_functions()["functions"] if f["name"] in NAMES],
}

Op = tuple[Any, ...]
"""("send", dest, tag, kind), ("recv" | "probe" | "mprobe", source, tag), ("irecv", source, tag), ("wait", index of the
irecv or isend), ("barrier",). kind: "" buffered, "s" synchronous, "i" synchronous and nonblocking."""
Where = tuple[int, int]


def random_program(rng: random.Random) -> list[list[Op]]:
    """Programs that mostly end: each message gets a receive that fits it, but wildcards may take others.

    Half of them are tangled: rank 0 has many wildcards pending while tokens among all ranks order what is sent.
    """
    tangled = rng.random() < 0.5
    ranks = 4 if tangled else rng.choice([3, 3, 4])
    program: list[list[Op]] = [[] for _ in range(ranks)]
    pending: list[list[int]] = [[] for _ in range(ranks)]
    tags = rng.choice([1, 1, 2, 3])
    receivers = rng.choice([1, 1, 2, ranks])
    told, last = -1, 0  # whom the last token told something, who sent the last message
    for _ in range(rng.randint(4, 7) if tangled else rng.randint(2, 7)):
        token = tangled and told < 0 and rng.random() < 0.5
        dest = 0 if tangled else rng.randrange(receivers)
        source = told if told > 0 else rng.choice([r for r in range(ranks) if r != dest])
        told = -1
        if token:
            source = rng.choice([0, last])
            dest = told = rng.choice([r for r in range(1, ranks) if r != source])
        last = source
        tag = 9 if token else rng.randrange(tags)
        kind = rng.choice([""] if token else ["", "s", "i"] if tangled else ["", "", "", "s", "i"])
        program[source].append(("send", dest, tag, kind))
        if kind == "i":
            pending[source].append(len(program[source]) - 1)
        asks = (ANY if rng.random() < 0.7 else source, ANY_TAG if rng.random() < 0.2 else tag)
        how = rng.choice(
            ["irecv"] * 5 + ["probe"] if tangled else ["recv", "recv", "irecv", "irecv", "probe", "mprobe"]
        )
        if token:
            how, asks = "recv", (source, tag)
        if how == "irecv":
            pending[dest].append(len(program[dest]))
        program[dest].append((how, *asks))
        for rank in range(ranks):
            while pending[rank] and not token and rng.random() < (0.25 if tangled else 0.4):
                which = pending[rank].pop(rng.randrange(len(pending[rank])))
                program[rank].append(("wait", which))
        if rng.random() < 0.05:
            for ops in program:
                ops.append(("barrier",))
    for rank in range(ranks):
        rng.shuffle(pending[rank])
        program[rank] += [("wait", which) for which in pending[rank]]
    return program


def fits(op: Op, source: int, tag: int) -> bool:
    return op[1] in (ANY, source) and op[2] in (ANY_TAG, tag)


@dataclass
class State:
    """A moment of a run. `at` counts the operations begun and done of each rank; `matched` maps receives to sends."""

    program: list[list[Op]]
    at: list[int]
    posted: list[set[int]]
    matched: dict[Where, Where] = field(default_factory=dict)
    taken: set[Where] = field(default_factory=set)
    seen: dict[Where, Where] = field(default_factory=dict)  # probes: the message that was seen

    @classmethod
    def begin(cls, program: list[list[Op]]) -> State:
        return cls(program, [0] * len(program), [set() for _ in program])

    def copy(self) -> State:
        return State(
            self.program, list(self.at), [set(p) for p in self.posted], dict(self.matched), set(self.taken),
            dict(self.seen),
        )  # fmt: skip

    def key(self) -> Any:
        return (
            tuple(self.at), tuple(tuple(sorted(p)) for p in self.posted), tuple(sorted(self.matched.items())),
            tuple(sorted(self.seen.items())),
        )  # fmt: skip

    def pattern(self, rank: int, i: int) -> Op:
        """What a receive asks for; the receive behind a probe asks for what the probe saw."""
        op = self.program[rank][i]
        if op[0] == "probe":
            source, k = self.seen[rank, i]
            return ("recv", source, self.program[source][k][2])
        return op

    def messages(self, dest: int) -> Iterator[Where]:
        """Unmatched messages to a rank, each sender's in order."""
        for source, ops in enumerate(self.program):
            for i in sorted(self.posted[source]):
                if ops[i][0] == "send" and ops[i][1] == dest and (source, i) not in self.taken:
                    yield source, i

    def waiting(self, rank: int) -> list[int]:
        """Posted, unmatched receives in posting order."""
        return [i for i in sorted(self.posted[rank]) if self.program[rank][i][0] != "send"
                and (rank, i) not in self.matched]  # fmt: skip

    def candidates(self, rank: int, pattern: Op, earlier: list[int]) -> Iterator[Where]:
        """Messages that something with this pattern could get now, behind the `earlier` receives."""
        first: set[int] = set()
        for source, i in self.messages(rank):
            tag = self.program[source][i][2]
            if source in first or not fits(pattern, source, tag):
                continue
            first.add(source)
            if not any(fits(self.pattern(rank, e), source, tag) for e in earlier):
                yield source, i

    def matches(self) -> Iterator[tuple[Where, Where]]:
        for rank in range(len(self.program)):
            waiting = self.waiting(rank)
            for k, i in enumerate(waiting):
                for send in self.candidates(rank, self.pattern(rank, i), waiting[:k]):
                    yield (rank, i), send

    def step(self, rank: int) -> str | None:
        """What the rank's next operation can do now: "post", "done", or a probe's "look"; None: it waits."""
        if self.at[rank] == len(self.program[rank]):
            return None
        i = self.at[rank]
        op = self.program[rank][i]
        if op[0] == "probe" and (rank, i) not in self.seen:
            return "look"
        if op[0] == "barrier":
            everybody = all(a < len(p) and p[a][0] == "barrier" and self._barriers(r) == self._barriers(rank)
                            for r, (a, p) in enumerate(zip(self.at, self.program, strict=True)))  # fmt: skip
            passed = any(self._barriers(r) > self._barriers(rank) for r in range(len(self.program)))
            return "done" if everybody or passed else None
        if op[0] == "wait":
            kind = self.program[rank][op[1]][0]
            ready = (rank, op[1]) in (self.taken if kind == "send" else self.matched)
            return "done" if ready else None
        if i not in self.posted[rank]:
            return "post"
        if op[0] == "send":
            return "done" if op[3] != "s" or (rank, i) in self.taken else None
        return "done" if op[0] == "irecv" or (rank, i) in self.matched else None

    def _barriers(self, rank: int) -> int:
        return sum(op[0] == "barrier" for op in self.program[rank][: self.at[rank]])

    def do(self, rank: int, what: str, saw: Where | None = None) -> State:
        after = self.copy()
        if what == "post":
            after.posted[rank].add(self.at[rank])
        elif what == "look":
            assert saw is not None
            after.seen[rank, self.at[rank]] = saw
        else:
            after.at[rank] += 1
        return after

    def take(self, receive: Where, send: Where) -> State:
        after = self.copy()
        after.matched[receive] = send
        after.taken.add(send)
        return after

    def looks(self, rank: int) -> Iterator[Where]:
        yield from self.candidates(rank, self.program[rank][self.at[rank]], self.waiting(rank))

    def moves(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = [("match", receive, send) for receive, send in self.matches()]
        for rank in range(len(self.program)):
            what = self.step(rank)
            if what == "look":
                found += [("look", rank, saw) for saw in self.looks(rank)]
            elif what:
                found.append(("do", rank, what))
        return found

    def play(self, move: tuple[Any, ...]) -> State:
        if move[0] == "match":
            return self.take(move[1], move[2])
        return self.do(move[1], "look", move[2]) if move[0] == "look" else self.do(move[1], move[2])


def record(program: list[list[Op]], rng: random.Random) -> State:
    state = State.begin(program)
    while moves := state.moves():
        state = state.play(rng.choice(moves))
    return state


def enumerated_races(program: list[list[Op]], end: State) -> set[tuple[str, Where, Where]]:
    """Every match, and every sight of a probe, in which an execution can leave the record for the first time."""
    found: set[tuple[str, Where, Where]] = set()
    known = set()
    stack = [State.begin(program)]
    while stack:
        state = stack.pop()
        key = state.key()
        if key in known:
            continue
        known.add(key)
        for move in state.moves():
            if move[0] == "match" and end.matched.get(move[1]) != move[2]:
                rank, i = move[1]
                if program[rank][i][1] == ANY and move[1] in end.matched and program[rank][i][0] != "probe":
                    found.add(("receive", move[1], move[2]))
                continue
            if move[0] == "look":
                probe = (move[1], state.at[move[1]])
                if end.seen.get(probe) != move[2]:
                    if probe in end.seen and program[probe[0]][probe[1]][1] == ANY:
                        found.add(("probe", probe, move[2]))
                    continue
            stack.append(state.play(move))
    return found


def build(program: list[list[Op]], end: State) -> tuple[Trace, dict[Where, int]]:
    """The trace of the run that ended in `end`, and the event that posts each operation."""
    b = Builder(ranks=len(program), functions=FUNCTIONS)
    events: dict[Where, int] = {}
    for rank, (r, ops) in enumerate(zip(b.ranks, program, strict=True)):
        requests: dict[int, Request] = {}
        for i, op in enumerate(ops[: end.at[rank] + 1]):
            open_ = i == end.at[rank]
            events[rank, i] = sum(1 for j in events if j[0] == rank) + sum(
                op[0] in ("probe", "mprobe") for op in ops[:i]
            )
            call = r.open if open_ else r
            got = end.matched.get((rank, i)) or end.seen.get((rank, i))
            said = {} if got is None else {"got": got[0], "got_tag": program[got[0]][got[1]][2]}
            if op[0] == "send":
                if op[3] == "i":
                    requests[i] = call.issend(op[1], op[2])
                else:
                    call.send(op[1], op[2], function="MPI_Ssend" if op[3] else "MPI_Send")
            elif op[0] == "recv":
                call.recv(op[1], op[2], **({} if open_ else said))
            elif op[0] == "irecv":
                requests[i] = call.irecv(op[1], op[2], **said)
            elif op[0] == "mprobe":
                message = call.mprobe(op[1], op[2], **({} if open_ else said))
                if not open_:
                    r.mrecv(message)
            elif op[0] == "probe":
                if (rank, i) in end.seen:
                    r.probe(op[1], op[2], **said)
                    call.recv(said["got"], said["got_tag"])
                else:
                    r.open.probe(op[1], op[2])
            elif op[0] == "wait":
                call.wait(requests[op[1]])
            else:
                call.barrier()
    return b.open(), events


def found_races(trace: Trace, events: dict[Where, int]) -> set[tuple[str, Where, Where]]:
    back = {(rank, event): (rank, i) for (rank, i), event in events.items()}
    m = match_operations(trace)
    o = order_events(trace, m)
    assert o.left_out == 0
    races = detect_races(m, o)
    found = set()
    for k in range(len(races)):
        posts = m.probes if races.probe[k] else m.recvs
        for send in races.others(k):
            receive = back[posts.id(int(races.row[k]))]
            found.add(("probe" if races.probe[k] else "receive", receive, back[m.sends.id(int(send))]))
    return found


def told(end: State) -> bool:
    """Whether the record tells all matches: no nonblocking receive was matched that nobody waited for."""
    for rank, ops in enumerate(end.program):
        done = {op[1] for op in ops[: end.at[rank]] if op[0] == "wait"}
        if any(op[0] == "irecv" and (rank, i) in end.matched and i not in done for i, op in enumerate(ops)):
            return False
    return True


@pytest.mark.cases(1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("part", range(4))
def test_the_races_are_those_of_the_enumeration(part: int) -> None:
    racing = compared = 0
    for seed in range(part * PROGRAMS // 4, (part + 1) * PROGRAMS // 4):
        rng = random.Random(seed)
        program = random_program(rng)
        end = record(program, rng)
        while not told(end):
            program = random_program(rng)
            end = record(program, rng)
        trace, events = build(program, end)
        expected = enumerated_races(program, end)
        found = found_races(trace, events)
        assert found == expected, (
            f"seed {seed}: {program} matched {end.matched}, saw {end.seen}: "
            f"missing {expected - found}, too many {found - expected}"
        )
        compared += 1
        racing += bool(expected)
    assert racing > compared / 5
