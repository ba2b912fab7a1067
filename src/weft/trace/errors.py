"""The error of a call whose arguments do not fit its function."""

from __future__ import annotations

from typing import Any

from weft.errors import RunError


class NoArgument(RunError, KeyError):
    """A call lacks an argument that its function has: its tail is damaged, or functions.json is not that of the run."""

    def __str__(self) -> str:
        return f"a call has no {self.args[0]}: its record, or the run's functions.json, does not fit it"


class Arguments(dict[str, Any]):
    """Arguments by name. Whoever asks for one that must be there, and is not, learns that the record is damaged."""

    def __missing__(self, name: str) -> Any:
        raise NoArgument(name)
