"""Print a script that lets your shell complete commands, options, runs, ranks, kinds of findings and files with Tab.

source <(weft completion bash)          in ~/.bashrc
source <(weft completion zsh)           in ~/.zshrc, after compinit
weft completion fish | source           in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse
from typing import Any, Final

SHELLS: Final = ("bash", "zsh", "fish")


def register(subparsers: Any) -> None:
    """Declare `weft completion` and its options to argparse."""
    parser = subparsers.add_parser(
        "completion", help="set up completion in your shell", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def run(args: argparse.Namespace) -> int:
    """Run `weft completion`: print the code by which the shell completes."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["weft"], shell=args.shell))
    return 0
