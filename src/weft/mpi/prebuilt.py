"""Finds recorders that need no compiling: those built before, and those that the wheel brings for the MPIs from PyPI.

A wheel has them in `native/ready/NAME/`: the recorder, its functions.json, and ready.json with the digest of the MPI
library that it was built for and of the sources that it was built from. Either differing, it is not used.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from weft.base.cache import digest_files, recall_facts, store_facts
from weft.base.lazy import dataclass
from weft.safety.folders import cache_folders, is_safely_cached

WEFT = Path(__file__).parents[1]
LIBRARY, TABLE, FACTS = "libweft-shim.so", "functions.json", "ready.json"


@dataclass(frozen=True)
class BuiltRecorder:
    """A recorder that is ready to be preloaded, and the functions.json that goes into each run made with it."""

    path: Path
    functions_json_path: Path
    soname: str
    library: str


def find_recorder(library: Path) -> BuiltRecorder | None:
    """Return the recorder for an MPI library: the one used last time, else the one that came with Weft's wheel. None if
    it has to be built.
    """
    known = recall_facts("recorder", [str(library.resolve())], [library.resolve(), *_source_files()])
    if known is not None:
        folder = Path(known["folder"])
        shim = BuiltRecorder(folder / LIBRARY, folder / TABLE, known["soname"], known["library"])
        if _is_trusted(shim) and shim.functions_json_path.exists():
            return shim
    found = _find_in_wheel(library)
    if found is not None:
        remember_recorder(library, found)
    return found


def _is_trusted(shim: BuiltRecorder) -> bool:
    """Return whether a recorder exists in a folder in which no other user writes: the cache, or Weft's own."""
    folder = shim.path.parent
    if folder.is_relative_to(wheel_folder()):
        return shim.path.exists()
    return any(folder.is_relative_to(one) for one in cache_folders()) and is_safely_cached(shim.path)


def remember_recorder(library: Path, shim: BuiltRecorder) -> None:
    """Store which recorder a library has."""
    facts = {"folder": str(shim.path.parent), "soname": shim.soname, "library": shim.library}
    store_facts("recorder", [str(library.resolve())], [library.resolve(), *_source_files()], facts)


def _find_in_wheel(library: Path) -> BuiltRecorder | None:
    """Return the recorder in Weft's wheel that was built for exactly this library from exactly these sources; None if
    there is none.
    """
    for facts in sorted(wheel_folder().glob(f"*/{FACTS}")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            content = json.loads(facts.read_text())
            if content["size"] != library.stat().st_size or content["sources"] != digest_files(_source_files()):
                continue
            if content["digest"] == digest_files([library]):
                return BuiltRecorder(
                    facts.parent / LIBRARY, facts.parent / TABLE, content["soname"], content["library"]
                )
    return None


def wheel_folder() -> Path:
    """Return the folder where a wheel has its recorders."""
    return WEFT / "native/ready"


def add_to_wheel(library: Path, shim: BuiltRecorder, name: str) -> Path:
    """Copy a recorder that was built here into the folder `name` of the wheel, and return that folder."""
    folder = wheel_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LIBRARY).write_bytes(shim.path.read_bytes())
    table = json.loads(shim.functions_json_path.read_text())
    table["mpi"]["path"] = ""  # of the machine that built it
    (folder / TABLE).write_text(json.dumps(table))
    facts = {"soname": shim.soname, "library": shim.library, "size": library.stat().st_size,
             "digest": digest_files([library]), "sources": digest_files(_source_files())}  # fmt: skip
    (folder / FACTS).write_text(json.dumps(facts, indent=1))
    return folder


def generator_modules() -> list[Path]:
    """Return the modules that write a recorder's source, and what they know of MPI."""
    return sorted((WEFT / "mpi").rglob("*.py"))


def _source_files() -> list[Path]:
    """Return the files from which a recorder is made."""
    native = [WEFT / "native" / name for name in ("format.h", "record.h", "record.c")]
    shim = sorted(path for path in (WEFT / "recorder").iterdir() if path.suffix in (".c", ".h", ".py"))
    return [*native, WEFT / "third_party/xxhash.h", *generator_modules(), *shim]
