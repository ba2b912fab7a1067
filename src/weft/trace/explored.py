"""Reads explored.json of a run with care, as all of a run may come from other people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from weft.base.event_id import Forced
from weft.base.json_files import read_json

FILE: Final = "explored.json"
SCHEMA: Final = "weft-explored/1"


def kept(run: Path) -> dict[str, Any]:
    """Return what explored.json of a run says; {} if there is none or it cannot be trusted."""
    if not (run / FILE).is_file():
        return {}
    data = read_json(run, FILE, SCHEMA, [])
    outcomes = data.get("outcomes")
    if not isinstance(outcomes, list) or not all(_sound(one) for one in outcomes):
        return {}
    return data


def _sound(one: object) -> bool:
    """Return whether an outcome says what is needed to find it again: a folder next to the run, and its parent."""
    return (
        isinstance(one, dict)
        and isinstance(one.get("number"), int)
        and isinstance(one.get("run"), str)
        and re.fullmatch(r"[^/\0]{1,255}", one["run"]) is not None
        and one["run"] not in (".", "..")
        and isinstance(one.get("forced"), str)
        and (one["forced"] == "" or Forced.parse(one["forced"]) is not None)
        and isinstance(one.get("effects"), list)
        and isinstance(one.get("status"), int)
        and isinstance(one.get("harm", 0), int)
        and isinstance(one.get("output"), list)
    )
