"""What `step` does not enter: functions, and all functions of files."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from weft.errors import UsageError

_FILE = re.compile(r".*/.*|.*\.(c|cc|cpp|cxx|C|h|hh|hpp|hxx|ipp|inl|tcc|f|f90|f95|f03|f08|for|ftn|py)", re.IGNORECASE)


def is_file(name: str) -> bool:
    """Tell whether a name means a source file and not a function."""
    return _FILE.fullmatch(name) is not None


@dataclass
class Skips:
    """The skipped names of a session, in the order in which they were given."""

    names: list[str] = field(default_factory=list)

    def add(self, name: str) -> dict[str, Any]:
        """Add a function or file that `step` does not enter, and return all of these. For an empty name only return
        them.
        """
        if len(name.split()) > 1:
            raise UsageError(f"{name!r} is not one name: give a FUNCTION or a FILE")
        if name and name not in self.names:
            self.names.append(name)
        return self.list_names()

    def remove(self, name: str) -> dict[str, Any]:
        """Let `step` enter a function or file again (all of them for an empty name), and return those that remain.
        UsageError for an unknown name.
        """
        if name and name not in self.names:
            raise UsageError(f"{name} is not skipped: `skip` alone lists what is")
        self.names = [one for one in self.names if name and one != name]
        return self.list_names()

    def list_names(self) -> dict[str, Any]:
        """Return the skipped names as an answer."""
        return {"kind": "skip", "skipped": list(self.names)}
