"""Model what was seen of each rank: its threads' stacks, and the MPI call of each."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from weft.trace.sites import CallSite


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. `values`: what its numbers are, by the names of its variables."""

    site: CallSite
    python: bool = False
    values: tuple[tuple[str, str], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the frame as JSON values."""
        at = self.site
        return {"function": at.function or "?", "file": at.file, "line": at.line, "module": at.module,
                "python": self.python, "values": dict(self.values)}  # fmt: skip

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Frame:
        """Return the frame that `as_dict` wrote."""
        site = CallSite(values["file"], values["line"], values["function"], values["module"])
        return cls(site, values["python"], tuple(values["values"].items()))


Stack = tuple[Frame, ...]
"""Frames, outermost first."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call: how the program's line has it, and its value where that could be read."""

    name: str
    text: str
    value: str | None = None

    def __str__(self) -> str:
        """`source=partner: 3`."""
        told = self.text if self.value in (None, self.text) else f"{self.text}: {self.value}"
        return f"{self.name}={told}"

    @property
    def number(self) -> int | None:
        """Return the argument's value if it is a whole number; None otherwise."""
        value = self.text if self.value is None else self.value
        return int(value) if value.removeprefix("-").isdigit() else None


@dataclass(frozen=True, slots=True)
class Call:
    """An MPI call that a thread is in. `called`: what the program calls it, such as `recv` of mpi4py."""

    name: str
    called: str = ""
    arguments: tuple[Argument, ...] = ()
    world: bool = False
    """Whether it is surely over MPI_COMM_WORLD, so that its ranks are the job's."""

    @property
    def text(self) -> str:
        """Return the call as people read it: `MPI_Recv(source=partner: 3, tag=7)`."""
        inside = f" in {self.name}" if self.called else ""
        return f"{self.called or self.name}({', '.join(map(str, self.arguments))}){inside}"

    def argument(self, *names: str) -> Argument | None:
        """Return the first argument with any of these names."""
        return next((argument for argument in self.arguments if argument.name in names), None)

    @classmethod
    def from_dict(cls, values: dict[str, Any] | None) -> Call | None:
        """Return the call that `dataclasses.asdict` wrote; None for None."""
        if values is None:
            return None
        arguments = tuple(Argument(**one) for one in values["arguments"])
        return cls(values["name"], values["called"], arguments, values["world"])


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread of a rank. `stack`: the program's frames, outermost first; `inside`: those of libraries on top of it."""

    id: int
    stack: Stack
    call: Call | None = None
    inside: Stack = ()

    def as_dict(self) -> dict[str, Any]:
        """Return the thread as JSON values."""
        return {"id": self.id, "call": asdict(self.call) if self.call else None,
                "stack": [frame.as_dict() for frame in self.stack],
                "inside": [frame.as_dict() for frame in self.inside]}  # fmt: skip

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Thread:
        """Return the thread that `as_dict` wrote."""
        stacks = [tuple(Frame.from_dict(frame) for frame in values[key]) for key in ("stack", "inside")]
        return cls(values["id"], stacks[0], Call.from_dict(values["call"]), stacks[1])


@dataclass(slots=True)
class RankStacks:
    """The stacks of one rank. `problem`: why it could not be looked at."""

    rank: int
    pid: int
    host: str
    program: str
    threads: list[Thread] = field(default_factory=list)
    later: list[Thread] = field(default_factory=list)
    """The second look; empty where there was none."""
    problem: str = ""
    replaced: bool = False
    """Whether the file of its program is another one since, or gone: lines are not known then."""
    world_start: int = 0
    """The first rank of its world: 0 unless MPI_Comm_spawn made it."""

    def as_dict(self) -> dict[str, Any]:
        """Return the stacks as JSON values."""
        return {"rank": self.rank, "pid": self.pid, "host": self.host, "program": self.program,
                "problem": self.problem, "replaced": self.replaced, "world_start": self.world_start,
                "threads": [thread.as_dict() for thread in self.threads],
                "later": [thread.as_dict() for thread in self.later]}  # fmt: skip

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> RankStacks:
        """Return the stacks that `as_dict` wrote."""
        threads, later = ([Thread.from_dict(one) for one in values[key]] for key in ("threads", "later"))
        return cls(
            values["rank"],
            values["pid"],
            values["host"],
            values["program"],
            threads,
            later,
            values["problem"],
            values["replaced"],
            values["world_start"],
        )


@dataclass(slots=True)
class Job:
    """The looks at all ranks of a job. `size`: how many ranks it has, as far as known."""

    size: int
    interval: float
    ranks: list[RankStacks]
    notes: list[str] = field(default_factory=list)
    ended: bool = False
    """Whether these are core files, of ranks that have ended."""

    @property
    def missing(self) -> list[int]:
        """Return the ranks of which no process was found."""
        return sorted(set(range(self.size)) - {one.rank for one in self.ranks})
