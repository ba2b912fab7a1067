"""Reads explored.json of a run with care, as all of a run may come from other people."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from weft.base.event_id import Forced
from weft.base.json_files import read_json

FILE: Final = "explored.json"
SCHEMA: Final = "weft-explored/1"


def read_explored(run: Path) -> dict[str, Any]:
    """Return the contents of a run's explored.json, which lists the other outcomes that `weft explore` ran. {} if there
    is none or it cannot be trusted.
    """
    if not (run / FILE).is_file():
        return {}
    data = read_json(run, FILE, SCHEMA, [])
    outcomes = data.get("outcomes")
    if not isinstance(outcomes, list) or not all(_is_valid_outcome(one) for one in outcomes):
        return {}
    return data


def _is_valid_outcome(outcome: object) -> bool:
    """Return whether an entry of explored.json has all its fields, with values of the right type."""
    return (
        isinstance(outcome, dict)
        and isinstance(outcome.get("number"), int)
        and isinstance(outcome.get("run"), str)
        and re.fullmatch(r"[^/\0]{1,255}", outcome["run"]) is not None
        and outcome["run"] not in (".", "..")
        and isinstance(outcome.get("forced"), str)
        and (outcome["forced"] == "" or Forced.parse(outcome["forced"]) is not None)
        and isinstance(outcome.get("effects"), list)
        and isinstance(outcome.get("status"), int)
        and isinstance(outcome.get("harm", 0), int)
        and isinstance(outcome.get("output"), list)
    )
