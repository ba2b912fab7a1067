"""Tell the tasks of a job step where one of them listens, and start their ranks so that they connect to it."""

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
from weft.launch.local.rank_setup import RankSetup
from weft.launch.plan import LaunchPlan
from weft.launch.rundir import RunDirectory

PLACE: Final = "hosts"
"""In the step's folder: where hosts are listened to, for this user alone."""


@dataclass(frozen=True)
class ListenerAddress:
    """The address of the task that listens, with the secret that proves a host."""

    name: str
    addresses: list[str]
    port: int
    secret: str
    guest: bool = False
    """Whether the run lies on another host, which this one does not see."""

    def adapt_plan(self, plan: LaunchPlan, run: RunDirectory, base: Path, variables: dict[str, str]) -> LaunchPlan:
        """Return the plan of a task whose rank is started by `entry.py`, which connects its host to the listener."""
        setup = RankSetup(
            base=str(base), name=self.name, addresses=self.addresses, port=self.port,
            library=str(plan.library.path), mpicc=str(plan.mpicc) if plan.mpicc else None,
            variables=plan_hosts.select_portable_variables(variables), facts=dict(run.facts), run=str(run.path),
        )  # fmt: skip
        return plan_hosts.plan_rank_starts(plan, setup, bytes.fromhex(self.secret))

    def write(self, run: RunDirectory) -> None:
        """Write the address into the step's folder for the other tasks; only this user can read the file."""
        written = os.open(run.path / "step" / PLACE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(written, "w") as file:
            json.dump(asdict(self), file)

    @classmethod
    def read_from(cls, folder: Path, run: Path) -> ListenerAddress:
        """Read the address that another task has written. Raises WeftError if it cannot be read."""
        try:
            return cls.from_json((folder / PLACE).read_bytes())
        except (OSError, ValueError) as error:
            raise WeftError(f"cannot read at which address the hosts of {run} meet: {error}") from error

    @classmethod
    def from_json(cls, text: bytes | str) -> ListenerAddress:
        """Parse an address. Raises ValueError if the text is none."""
        try:
            told = json.loads(text)
        except RecursionError as error:
            raise ValueError("it is nested too deeply") from error
        return cls.from_facts(told)

    @classmethod
    def from_facts(cls, facts: object) -> ListenerAddress:
        """Check an address that was parsed from JSON and return it. Raises ValueError if it is none."""
        if not isinstance(facts, dict) or not facts.keys() <= _KINDS.keys():
            raise ValueError("it has unknown parts")
        found = cls(**{"name": "", "addresses": [], "port": 0, "secret": "", **facts})
        fits = all(type(getattr(found, name)) is kind for name, kind in _KINDS.items())
        if not fits or not all(isinstance(one, str) for one in found.addresses) or not 0 < found.port < 1 << 16:
            raise ValueError("one of its parts has the wrong type")
        if not re.fullmatch(r"[^/\0]*[^/\0.][^/\0]*", found.name) or not bytes.fromhex(found.secret):
            raise ValueError("its name is not a name for a folder, or it has no secret")
        return found


_KINDS: Final = {"name": str, "addresses": list, "port": int, "secret": str, "guest": bool}
"""The parts of a place, and what each is."""


def remove_guest_run(path: Path) -> None:
    """Remove the folder by which the tasks of a host found each other, if this host does not see the run."""
    with suppress(WeftError):
        if ListenerAddress.read_from(path / "step", path).guest:
            shutil.rmtree(path / "step", ignore_errors=True)
            RunDirectory(path, {}).discard()
