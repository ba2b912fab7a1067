"""Read and write the compiler calls that made a program: `weft cc` leaves them in a section that no process loads.

The section holds a line of JSON for each source, like a compilation database (directory, file, arguments), and one
without `file` for each call that linked. The linker concatenates the sections of all objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from weft.errors import UsageError

SECTION: Final = ".weft.calls"
MOST_BYTES: Final = 1 << 26


STACK: Final = '\t.section .note.GNU-stack,"",%progbits\n'
"""Nothing here executes what lies on the stack: an object that does not say so lets the whole program do it."""


def render_assembly(calls: Iterable[Mapping[str, Any]], alone: bool) -> str:
    """Return assembler source that holds the calls. `alone`: as an object of its own, else before a compiler's
    output.
    """
    lines = [json.dumps(one).replace("\\", "\\\\").replace('"', '\\"') for one in calls]
    kept = "".join(f'\t.ascii "{line}\\n"\n' for line in lines)
    return f'\t.section {SECTION},"",%progbits\n{kept}\t.text\n{STACK if alone else ""}'


def read_compiler_calls(path: Path) -> list[dict[str, Any]]:
    """Return the calls in a program, a library or an object, each once; none if it has none.

    Raises UsageError if the file cannot be read, or holds something that `weft cc` did not write.
    """
    try:
        with path.open("rb") as file:
            section = ELFFile(file).get_section_by_name(SECTION)
            if section is None:
                return []
            if section.data_size > MOST_BYTES:
                raise ValueError(f"{section.data_size} bytes of calls")
            text = section.data().decode()
        found = [json.loads(line) for line in dict.fromkeys(text.splitlines())]
        if not all(map(_is_valid_call, found)):
            raise ValueError(f"{SECTION} holds something else")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ELFError, ValueError) as error:
        raise UsageError(f"{path} was not built by `weft cc`, or is damaged: {error}") from error
    return found


def _is_valid_call(entry: object) -> bool:
    """Return whether an entry of a compilation database is complete."""
    if not isinstance(entry, dict) or not isinstance(entry.get("directory"), str):
        return False
    words = entry.get("arguments")
    named = isinstance(entry.get("file", ""), str)
    return named and isinstance(words, list) and len(words) > 0 and all(isinstance(word, str) for word in words)
