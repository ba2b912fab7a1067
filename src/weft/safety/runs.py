"""Recognise this user's own runs: they are replayed without a question, and chosen if no run is named.

A run is signed with a key that only its user can read, over what a replay would execute. A run that another user made,
changed or sent has no such signature, nor has one of another machine.
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

from weft.safety.folders import OpenFolder, make_private

SIGNATURE: Final = "signature"
"""In run.json."""
SIGNED: Final = ("command", "cwd", "started")
"""What is signed of it: what a replay executes, and where; `resolved` too, where a run has it."""
KEY_BYTES: Final = 32
MAX_JSON: Final = 64 << 20
TRUST_REMEDY: Final = "add `trust: true` to the launch configuration to allow that"
"""How the user of an editor allows a replay of another user's run."""


def sign_facts(facts: Mapping[str, Any]) -> str | None:
    """Return this user's signature of what a replay of the run would execute; None without a key."""
    key = _get_or_make_key(_key_file())
    return None if key is None else _compute_signature(facts, key)


def add_signature(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the facts of a new run with its user's signature; without one if there can be no key."""
    known = sign_facts(facts)
    return facts if known is None else {**facts, SIGNATURE: known}


def is_signed(facts: Mapping[str, Any]) -> bool:
    """Return whether this user recorded a run, by the signature in its run.json. `facts`: the content of run.json."""
    key = _read_key(_key_file())
    # Compared as any text: nobody measures how long it takes, as each attempt asks a person.
    return key is not None and facts.get(SIGNATURE) == _compute_signature(facts, key)


def hash_execution(facts: Mapping[str, Any]) -> str:
    """Return a hash of the command and the folder that a replay of a run would execute. When a user has agreed to
    execute it, this word is passed to the replay as the proof. `facts`: the content of run.json.
    """
    return hashlib.blake2b(_encode_facts(facts, ("command", "cwd")), digest_size=16).hexdigest()


def is_own(folder: Path) -> bool:
    """Return whether a run's folder and its run.json belong to this user, and are no links."""
    return read_own_facts(folder) is not None


def read_own_facts(folder: Path) -> dict[str, Any] | None:
    """Return the content of run.json of a run that this user recorded. None if the run is another user's or cannot be
    opened, {} if the file is damaged.
    """
    with suppress(OSError):
        held = OpenFolder(folder)
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


def explain_doubt(folder: Path, facts: Mapping[str, Any]) -> str:
    """Return why a run is not taken for one of this user's own. Empty if it is. `facts`: the content of its
    run.json.
    """
    if not is_own(folder):
        return "it belongs to another user"
    return "" if is_signed(facts) else "this user did not record it here"


def describe_execution(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return (the command that a replay of a run executes, the folder in which it does), each as one line of text. Line
    breaks are escaped, as both may come from somebody else.
    """
    import shlex  # seldom: of runs that are asked about

    told = shlex.join(read_command(facts)), str(facts.get("cwd") or os.getcwd())  # noqa: PTH109 (as replays have it)
    return told[0].replace("\n", r"\n"), told[1].replace("\n", r"\n")


def read_command(facts: Mapping[str, Any]) -> list[str]:
    """Return the words of a run's command as they were typed, if PATH still finds the recorded programs; else with the
    full paths of those programs, if the run has them. What is shown is what is executed.

    A program may use the name by which it is called: OpenFOAM sends its own to other ranks. Empty if run.json holds no
    list.
    """
    import shutil  # as above

    command = facts.get("command")
    typed = [str(word) for word in command] if isinstance(command, list) else []
    resolved = facts.get("resolved", typed)
    found = [str(word) for word in resolved] if isinstance(resolved, list) else typed
    if len(found) == len(typed) and all(
        word in (name, shutil.which(name)) for name, word in zip(typed, found, strict=True)
    ):
        return typed
    return found


def _compute_signature(facts: Mapping[str, Any], key: bytes) -> str:
    return hashlib.blake2b(_encode_facts(facts, SIGNED), key=key, digest_size=32, person=b"weft-run").hexdigest()


def _encode_facts(facts: Mapping[str, Any], names: tuple[str, ...]) -> bytes:
    names += ("resolved",) if "resolved" in facts else ()
    return json.dumps([facts.get(name) for name in names], sort_keys=True).encode()


def _key_file() -> Path:
    root = os.environ.get("XDG_STATE_HOME") or os.path.join(_home(), ".local/state")  # noqa: PTH118 (as there)
    return Path(root) / "weft" / "key"


def _home() -> str:
    """Return this user's home folder. Root never gets the home of a user who called `sudo -E`. Without a home, the
    result is a relative path.
    """
    home = os.path.expanduser("~")  # noqa: PTH111 (where there is none, Path raises)
    with suppress(OSError):
        if os.geteuid() == 0 and os.stat(home).st_uid != 0:  # noqa: PTH116 (as above)
            return os.path.expanduser("~root")  # noqa: PTH111 (as above)
    return home


@cache
def _get_or_make_key(file: Path) -> bytes | None:
    """Return the key with which this user signs runs; it is made if it is missing. None if it cannot be made, for
    example because the home folder is read-only.
    """
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
    """Return the key in a file. None unless only this user can read and write the file."""
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
