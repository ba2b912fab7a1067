"""Read the JSON files of a run directory with care, as they may come from other people."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.errors import OtherVersion, RunError
from weft.safety.folders import OpenFolder, Unfit, read_regular

MAX_JSON: Final = 64 << 20


def plain(data: bytes) -> object:
    """Parse JSON whose numbers are finite. Raises ValueError for anything else."""
    return json.loads(data, parse_constant=_number, parse_float=_number)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is not a number")
    return value


def read_json(
    root: Path, name: str, schema: str, problems: list[str], *, limit: int = MAX_JSON,
    parsed: Callable[[bytes], object] = plain, exact: bool = False,
) -> dict[str, object]:  # fmt: skip
    """Return the object in the file RUN/name. If the file cannot be read or has another schema, return {} and add a
    problem to `problems`.

    `parsed`: makes the object from the file's bytes. `exact`: if only the version of the schema differs, raise
    OtherVersion; for files without which the run cannot be read."""
    try:
        value = parsed(read_regular(root / name, root, limit))
        if not isinstance(value, dict):
            raise RunError(f"{root / name} holds no JSON object")
        if value.get("schema") != schema:
            family, _, version = schema.rpartition("/")
            if (found := str(value.get("schema"))).startswith(f"{family}/"):
                raise OtherVersion(root / name, found.removeprefix(f"{family}/")[:40], version)
            raise RunError(f"{root / name} has the schema {str(value.get('schema'))[:40]!r}, not {schema!r}")
    except RunError as error:
        if exact and isinstance(error, OtherVersion):
            raise
        problems.append(str(error))
        return {}
    except Unfit as error:
        problems.append(f"{root / name} {error}")
        return {}
    except OSError as error:
        problems.append(f"{root / name} cannot be read: {error.strerror}")
        return {}
    except (ValueError, RecursionError) as error:
        problems.append(f"{root / name} cannot be read: {str(error)[:200]}")
        return {}
    return value


def write_whole(path: Path, data: bytes) -> None:
    """Write a file completely or not at all: beside its place, then renamed. The umask decides who may read it."""
    OpenFolder(path.parent.resolve()).write_whole(path.name, data)
