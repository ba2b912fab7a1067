"""Keep files that one process at a time builds, and facts that hold while the files they come from stay the same."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from weft.safety.folders import cache_folder, cache_folders, make_private


@contextmanager
def exclusive_build(made: Path) -> Iterator[None]:
    """In a `with` block, be the only process that makes the file or folder `made` of the cache. Other processes wait
    for the block's end, so that they find it. Raises OSError if the disk is full."""
    make_private(made.parent)
    with made.with_suffix(".lock").open("w") as lock:
        with suppress(OSError):  # a file system without locks: two may make it, the first to end wins
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def digest_files(paths: Iterable[Path]) -> str:
    """Return one digest of the contents of some files, whatever folders they are in."""
    whole = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        whole.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def recall_facts(kind: str, key: list[str], depends: Iterable[Path]) -> dict[str, Any] | None:
    """Return the facts that were stored in the cache under `kind` and `key`. None if there are none, or a file that
    they depend on has changed since."""
    depends = list(depends)
    for cache in cache_folders():
        try:
            content = json.loads(_note(cache, kind, key).read_text())
            if content["key"] == key and content["stamps"] == file_stamps([*depends, *map(Path, content["more"])]):
                return dict(content["facts"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
    return None


def store_facts(
    kind: str, key: list[str], depends: Iterable[Path], facts: dict[str, Any], more: Iterable[Path] = ()
) -> None:
    """Store facts in the cache under `kind` and `key`. They are valid until one of the files in `depends` or `more`
    changes; `more` are files that only the facts themselves name."""
    note, others = _note(cache_folder(), kind, key), list(more)
    with suppress(OSError):
        content: dict[str, object] = {"key": key, "more": [str(path) for path in others], "facts": facts}
        content["stamps"] = file_stamps([*depends, *others])
        make_private(note.parent)
        work = note.with_suffix(f".{os.getpid()}")
        work.write_text(json.dumps(content))
        work.replace(note)


def _note(cache: Path, kind: str, key: list[str]) -> Path:
    return cache / "notes" / f"{kind}-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:20]}.json"


def file_stamps(paths: Iterable[Path]) -> list[list[object]]:
    """Return [path, time, size, inode] of each file, a value that changes if the file does; only [path] for a missing
    file."""
    found: list[list[Any]] = []
    for path in paths:
        try:
            status = path.stat()
            found.append([str(path), status.st_mtime_ns, status.st_size, status.st_ino])
        except OSError:
            found.append([str(path)])
    return found
