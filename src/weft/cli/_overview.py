"""What `weft` and `weft help` print: the commands by what one does with them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Final

TASKS: Final[Mapping[str, tuple[str, ...]]] = {
    "Find what is wrong": ("run", "report", "explain", "attach", "check", "cc"),
    "Look into a recorded run": ("view", "dump", "compare", "export", "probes"),
    "Run it again": ("replay", "debug", "explore", "dap", "tasks"),
    "Keep runs": ("runs", "pack", "gather"),
    "Set up": ("doctor", "demo", "completion"),
}
"""Each command once, under the task that it is for."""


def render_overview(parser: argparse.ArgumentParser) -> str:
    """Return the list of commands by what one does with them; `parser` knows all commands."""
    [commands] = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    known = {one.dest: one.help or "" for one in commands._choices_actions}
    lines = ["usage: weft COMMAND ...        weft COMMAND --help lists a command's options", ""]
    for task, names in TASKS.items():
        lines += [f"{task}:", *(f"  {name:<12}{known[name]}" for name in names if name in known), ""]
    return "\n".join([*lines, "For example:", "  weft run -n 4 -- python prog.py", "  weft report"])
