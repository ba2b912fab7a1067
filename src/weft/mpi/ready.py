"""Recorders that need no compiling: those built before, and those that the wheel brings for the MPIs from PyPI.

A wheel has them in `native/ready/NAME/`: the recorder, its functions.json, and ready.json with the digest of the MPI
library that it was built for and of the sources that it was built from. Either differing, it is not used.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from weft.plain import dataclass
from weft.safety.folders import cache_folder, cache_folders, is_kept, make_private

WEFT = Path(__file__).parents[1]
LIBRARY, TABLE, FACTS = "libweft-shim.so", "functions.json", "ready.json"


@dataclass(frozen=True)
class Shim:
    """A recorder that is ready to be preloaded, and the functions.json that goes into each run made with it."""

    path: Path
    functions_json_path: Path
    soname: str
    library: str


@contextmanager
def alone(made: Path) -> Iterator[None]:
    """Let one process at a time make a file or folder of the cache: the others wait and then find it.

    OSError where there is no room for it.
    """
    make_private(made.parent)
    with made.with_suffix(".lock").open("w") as lock:
        with suppress(OSError):  # a file system without locks: two may make it, the first to end wins
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def look(library: Path) -> Shim | None:
    """The recorder for a library, None where it has to be built: remembered, else of the wheel."""
    known = recall("recorder", [str(library.resolve())], [library.resolve(), *_sources()])
    if known is not None:
        folder = Path(known["folder"])
        shim = Shim(folder / LIBRARY, folder / TABLE, known["soname"], known["library"])
        if _may_be_loaded(shim) and shim.functions_json_path.exists():
            return shim
    found = _of_wheel(library)
    if found is not None:
        remember(library, found)
    return found


def _may_be_loaded(shim: Shim) -> bool:
    """Whether a recorder is there, and lies where nobody else writes: in the cache, or in Weft itself."""
    folder = shim.path.parent
    if folder.is_relative_to(folder_of_wheel()):
        return shim.path.exists()
    return any(folder.is_relative_to(one) for one in cache_folders()) and is_kept(shim.path)


def remember(library: Path, shim: Shim) -> None:
    """Keep which recorder a library has."""
    facts = {"folder": str(shim.path.parent), "soname": shim.soname, "library": shim.library}
    keep("recorder", [str(library.resolve())], [library.resolve(), *_sources()], facts)


def _of_wheel(library: Path) -> Shim | None:
    for facts in sorted(folder_of_wheel().glob(f"*/{FACTS}")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(facts.read_text())
            if content["size"] != library.stat().st_size or content["sources"] != digest(_sources()):
                continue
            if content["digest"] == digest([library]):
                return Shim(facts.parent / LIBRARY, facts.parent / TABLE, content["soname"], content["library"])
    return None


def folder_of_wheel() -> Path:
    """Where a wheel has its recorders."""
    return WEFT / "native/ready"


def pack(library: Path, shim: Shim, name: str) -> Path:
    """Put a recorder that was built here where the wheel takes it from; return its folder."""
    folder = folder_of_wheel() / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LIBRARY).write_bytes(shim.path.read_bytes())
    table = json.loads(shim.functions_json_path.read_text())
    table["mpi"]["path"] = ""  # of the machine that built it
    (folder / TABLE).write_text(json.dumps(table))
    facts = {"soname": shim.soname, "library": shim.library, "size": library.stat().st_size,
             "digest": digest([library]), "sources": digest(_sources())}  # fmt: skip
    (folder / FACTS).write_text(json.dumps(facts, indent=1))
    return folder


def digest(paths: Iterable[Path]) -> str:
    """The digest of the content of some files, whatever folders they are in."""
    whole = hashlib.sha256()
    for path in sorted(paths, key=lambda path: path.name):
        whole.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def generators() -> list[Path]:
    """The modules that write a recorder's source, and what they know of MPI."""
    return sorted((WEFT / "mpi").rglob("*.py"))


def _sources() -> list[Path]:
    """The files that a recorder is made from."""
    native = [WEFT / "native" / name for name in ("format.h", "record.h", "record.c")]
    shim = sorted(path for path in (WEFT / "recorder").iterdir() if path.suffix in (".c", ".h", ".py"))
    return [*native, WEFT / "third_party/xxhash.h", *generators(), *shim]


# ---- notes: what was found out before, with the stamps of the files that it depends on ----


def recall(kind: str, key: list[str], depends: Iterable[Path]) -> dict[str, Any] | None:
    """What was kept under a key, None where nothing was or a file that it depends on has changed since."""
    depends = list(depends)
    for cache in cache_folders():
        try:
            content = json.loads(_note(cache, kind, key).read_text())
            if content["key"] == key and content["stamps"] == stamps([*depends, *map(Path, content["more"])]):
                return dict(content["facts"])
        except (OSError, ValueError, KeyError, TypeError):
            pass
    return None


def keep(kind: str, key: list[str], depends: Iterable[Path], facts: dict[str, Any], more: Iterable[Path] = ()) -> None:
    """Keep facts under a key. `more`: files that they depend on besides, named by the facts alone."""
    note, others = _note(cache_folder(), kind, key), list(more)
    with suppress(OSError):
        content: dict[str, object] = {"key": key, "more": [str(path) for path in others], "facts": facts}
        content["stamps"] = stamps([*depends, *others])
        make_private(note.parent)
        work = note.with_suffix(f".{os.getpid()}")
        work.write_text(json.dumps(content))
        work.replace(note)


def _note(cache: Path, kind: str, key: list[str]) -> Path:
    return cache / "notes" / f"{kind}-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:20]}.json"


def stamps(paths: Iterable[Path]) -> list[list[object]]:
    """What changes when a file does: path, time, size and inode; of a file that is not there the path alone."""
    found: list[list[Any]] = []
    for path in paths:
        try:
            status = path.stat()
            found.append([str(path), status.st_mtime_ns, status.st_size, status.st_ino])
        except OSError:
            found.append([str(path)])
    return found
