"""Pass instructions from `weft run` to the start of each rank on every host, as one word of the launcher line."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import stat
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from weft.base.lazy import dataclass
from weft.base.lifetime import start_time
from weft.errors import WeftError

SECRET: Final = "WEFT_INTERNAL_SECRET"
"""The variable that brings the secret to the ranks' starts: command lines can be read by all users of a host."""
ENDED: Final = "ended"
"""In the run's folder on a host: how Weft ended the run, for tasks of a job step that do not see it."""
FAILED: Final = "failed"
"""The same: that the rank of such a task has failed, so that launchers may end the others once it is reported."""
GIVEN: Final = "given"
"""The same: that the records were taken, and ranks go on."""


@dataclass(frozen=True)
class RankSetup:
    """Where ranks write records, at which address `weft run` listens, and the recorder's variables."""

    base: str
    """The folder that --local named."""
    name: str
    """Of the run's own folder in it: of no other run, and of no other user's."""
    addresses: list[str]
    port: int
    library: str
    """The MPI that the program loads."""
    mpicc: str | None
    variables: dict[str, str]
    facts: dict[str, Any]
    """What run.json says so far."""
    run: str | None = None
    """The run, where each rank was started by a `weft run` of its own: hosts that see it can put records there."""

    @property
    def folder(self) -> Path:
        """The run's folder on a host."""
        return Path(self.base) / self.name

    def encode(self) -> str:
        """Return the setup as one word that no shell changes."""
        return base64.urlsafe_b64encode(zlib.compress(json.dumps(asdict(self)).encode())).decode()


def decode_setup(word: str) -> RankSetup:
    """Return the setup that a word encodes."""
    return RankSetup(**json.loads(zlib.decompress(base64.urlsafe_b64decode(word))))


def make_host_folder(folder: Path) -> None:
    """Make the run's folder on this host, or use the one that another rank made. Raises WeftError if it is not ours."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise WeftError(f"{folder} belongs to another user: choose another folder for --local")
        for below in ("ranks", "tasks"):
            (folder / below).mkdir(exist_ok=True)
    except OSError as error:
        raise WeftError(f"cannot write to {folder}: {error.strerror} (choose another --local)") from error


def count_started_ranks(folder: Path) -> int:
    """Return how many ranks were started on this host."""
    return sum(1 for _ in (folder / "tasks").glob("[0-9]*"))


def has_living_ranks(folder: Path) -> bool:
    """Return whether a rank that was started on this host still runs."""
    for path in (folder / "tasks").glob("[0-9]*"):
        try:
            if path.read_text() == start_time(int(path.name)):
                return True
        except (OSError, ValueError):
            continue
    return False


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock on a file."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
