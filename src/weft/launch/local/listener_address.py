"""Where the hosts of a job step meet, and how a task's rank is started so that it finds the way there."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from weft.base.lazy import dataclass
from weft.errors import WeftError
from weft.launch.local import plan_hosts
from weft.launch.local.rank_setup import Setup
from weft.launch.plan import Plan
from weft.launch.rundir import RunDirectory

PLACE: Final = "hosts"
"""In the step's folder: where hosts are listened to, for this user alone."""


@dataclass(frozen=True)
class Place:
    """What the task that listens lets the others know."""

    name: str
    addresses: list[str]
    port: int
    secret: str
    guest: bool = False
    """Whether the run lies on another host, which this one does not see."""

    def planned(self, plan: Plan, run: RunDirectory, base: Path, variables: dict[str, str]) -> Plan:
        """The plan of a task: its rank is started by what knows the way to the others."""
        setup = Setup(
            base=str(base), name=self.name, addresses=self.addresses, port=self.port,
            library=str(plan.library.path), mpicc=str(plan.mpicc) if plan.mpicc else None,
            variables=plan_hosts.of_ranks(variables), facts=dict(run.facts), run=str(run.path),
        )  # fmt: skip
        return plan_hosts.started_by(plan, setup, bytes.fromhex(self.secret))

    def write(self, run: RunDirectory) -> None:
        """Write it down for the other tasks, in a file that only this user reads."""
        written = os.open(run.path / "step" / PLACE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(written, "w") as file:
            json.dump(asdict(self), file)

    @classmethod
    def of(cls, folder: Path, run: Path) -> Place:
        """What another task has written down. WeftError where that cannot be read."""
        try:
            return cls.from_json((folder / PLACE).read_bytes())
        except (OSError, ValueError) as error:
            raise WeftError(f"cannot read where the hosts of {run} meet: {error}") from error

    @classmethod
    def from_json(cls, text: bytes | str) -> Place:
        """What somebody has told. ValueError where that is none."""
        try:
            told = json.loads(text)
        except RecursionError as error:
            raise ValueError("it nests too deep") from error
        return cls.from_facts(told)

    @classmethod
    def from_facts(cls, told: object) -> Place:
        """What somebody has told, as JSON has it. ValueError where that is none."""
        if not isinstance(told, dict) or not told.keys() <= _KINDS.keys():
            raise ValueError("it has other parts than a place")
        found = cls(**{"name": "", "addresses": [], "port": 0, "secret": "", **told})
        fits = all(type(getattr(found, name)) is kind for name, kind in _KINDS.items())
        if not fits or not all(isinstance(one, str) for one in found.addresses) or not 0 < found.port < 1 << 16:
            raise ValueError("a part of it is of another kind than a place's")
        if not re.fullmatch(r"[^/\0]*[^/\0.][^/\0]*", found.name) or not bytes.fromhex(found.secret):
            raise ValueError("it has no name that a folder can have, or no secret")
        return found


_KINDS: Final = {"name": str, "addresses": list, "port": int, "secret": str, "guest": bool}
"""The parts of a place, and what each is."""


def leave(path: Path) -> None:
    """Take away the folder by which the tasks of a host that does not see the run found each other."""
    with suppress(WeftError):
        if Place.of(path / "step", path).guest:
            shutil.rmtree(path / "step", ignore_errors=True)
            RunDirectory(path, {}).discard()
