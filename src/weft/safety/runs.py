"""Which runs are this user's own: those are replayed without a question, and taken where none is named.

A run that is recorded is signed with a key that only its user can read, over what a replay would execute. A run that
another user made, changed or sent has no such signature, and neither has one of another machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from weft.safety.folders import Held, make_private

SIGNATURE: Final = "signature"
"""In run.json."""
SIGNED: Final = ("command", "cwd", "started")
"""What is signed of it: what a replay executes, and where."""
KEY_BYTES: Final = 32
MAX_JSON: Final = 64 << 20


def signature(facts: Mapping[str, Any]) -> str | None:
    """This user's signature of what a replay of a run would execute; None where there can be no key."""
    key = _key(_key_file())
    return None if key is None else _of(facts, key)


def signed(facts: dict[str, Any]) -> dict[str, Any]:
    """Facts of a run that this process records, with its user's signature; without one where there can be no key."""
    known = signature(facts)
    return facts if known is None else {**facts, SIGNATURE: known}


def is_signed(facts: Mapping[str, Any]) -> bool:
    """Whether this user recorded a run of which run.json says these facts."""
    key = _read_key(_key_file())
    # Compared as any text: nobody measures how long it takes, as each attempt asks a person.
    return key is not None and facts.get(SIGNATURE) == _of(facts, key)


def agreement(facts: Mapping[str, Any]) -> str:
    """A word for what a replay of a run would execute: who was asked hands it on to the replay that he starts."""
    return hashlib.blake2b(_said(facts, ("command", "cwd")), digest_size=16).hexdigest()


def is_own(folder: Path) -> bool:
    """Whether a run's folder and its run.json belong to this user, and are no links."""
    return own_facts(folder) is not None


def own_facts(folder: Path) -> dict[str, Any] | None:
    """What run.json says of a run of this user's; None of another's, and where there is none.

    {} where it belongs to this user and cannot be read.
    """
    with suppress(OSError):
        held = Held(folder)
        if held.owner != os.geteuid():
            return None
        file = held.open("run.json")
        with os.fdopen(file, "rb") as reader:
            status = os.fstat(file)
            if status.st_uid != os.geteuid() or not stat.S_ISREG(status.st_mode):
                return None
            with suppress(ValueError, RecursionError):
                facts = json.loads(reader.read(min(status.st_size, MAX_JSON)))
                return facts if isinstance(facts, dict) else {}
            return {}
    return None


def doubt(folder: Path, facts: Mapping[str, Any]) -> str:
    """Why a run is not taken for this user's own, in a few words; empty where it is."""
    if not is_own(folder):
        return "it belongs to another user"
    return "" if is_signed(facts) else "this user did not record it here"


def executes(facts: Mapping[str, Any]) -> tuple[str, str]:
    """What a replay of a run executes, as one would type it, and in which folder: both others' words, on one line."""
    import shlex  # seldom: of runs that are asked about

    told = shlex.join(words_of(facts)), str(facts.get("cwd") or os.getcwd())  # noqa: PTH109 (as replays have it)
    return told[0].replace("\n", r"\n"), told[1].replace("\n", r"\n")


def words_of(facts: Mapping[str, Any]) -> list[str]:
    """The words of a run's command; none of what is not a list: what is shown is what is executed."""
    command = facts.get("command")
    return [str(word) for word in command] if isinstance(command, list) else []


def _of(facts: Mapping[str, Any], key: bytes) -> str:
    return hashlib.blake2b(_said(facts, SIGNED), key=key, digest_size=32, person=b"weft-run").hexdigest()


def _said(facts: Mapping[str, Any], names: tuple[str, ...]) -> bytes:
    return json.dumps([facts.get(name) for name in names], sort_keys=True).encode()


def _key_file() -> Path:
    root = os.environ.get("XDG_STATE_HOME") or os.path.join(_home(), ".local/state")  # noqa: PTH118 (as there)
    return Path(root) / "weft" / "key"


def _home() -> str:
    """This user's home; of root never that of who called `sudo -E`. A relative path where there is none."""
    home = os.path.expanduser("~")  # noqa: PTH111 (where there is none, Path raises)
    with suppress(OSError):
        if os.geteuid() == 0 and os.stat(home).st_uid != 0:  # noqa: PTH116 (as above)
            return os.path.expanduser("~root")  # noqa: PTH111 (as above)
    return home


@cache
def _key(file: Path) -> bytes | None:
    """The user's key, made where it is missing; None where it cannot be: a home that is read only, or none."""
    if (key := _read_key(file)) is not None:
        return key
    if not file.is_absolute():
        return None
    with suppress(OSError):
        make_private(file.parent)
        beside = file.with_name(f".key-{os.urandom(8).hex()}")
        opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(opened, "wb") as writer:
                writer.write(os.urandom(KEY_BYTES))
            with suppress(FileExistsError):  # another process was faster: its key is the user's
                file.hardlink_to(beside)
        finally:
            beside.unlink()
    return _read_key(file)


def _read_key(file: Path) -> bytes | None:
    """The key in a file that only this user can read and write; None of any other."""
    with suppress(OSError):
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(opened)
            alone = status.st_uid == os.geteuid() and not status.st_mode & 0o077 and stat.S_ISREG(status.st_mode)
            key = os.read(opened, KEY_BYTES + 1) if alone else b""
        finally:
            os.close(opened)
        return key if len(key) == KEY_BYTES else None
    return None
