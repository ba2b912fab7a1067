"""Console blocks of a page: which commands a person types there, and what they print."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

PROMPT, SHELL, ANYTHING = "(weft) ", "$ ", "..."


@dataclass
class Typed:
    """A command of the shell, the commands of Weft's prompt typed into it, and all that it prints."""

    command: str
    prompt: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    @property
    def stdin(self) -> str:
        """Return what is typed at Weft's prompt, a line each."""
        return "".join(f"{line}\n" for line in self.prompt)


def shown_files(page: str) -> dict[str, str]:
    """Return the programs that a page shows, by the name that begins the line before each."""
    return dict(re.findall(r"`([\w-]+\.(?:py|c))`[^\n]*:\n\n```\w+\n(.*?)```", page, re.DOTALL))


def typed_commands(page: str) -> list[Typed]:
    """Return the commands of all console blocks in order; a block that begins at Weft's prompt continues the last."""
    found: list[Typed] = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for line in block.splitlines():
            if line.startswith(SHELL):
                found.append(Typed(line.removeprefix(SHELL)))
                continue
            if line.startswith(PROMPT):
                found[-1].prompt.append(line.removeprefix(PROMPT))
            found[-1].output.append(line)
    return found
