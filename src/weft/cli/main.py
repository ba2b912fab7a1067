"""The entry point of `weft`: finds the commands, runs one, and prints what it raises."""

from __future__ import annotations

import argparse
import atexit
import gc
import importlib.util
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import weft
from weft import cli
from weft.base.interpreters import explain_free_threaded, is_free_threaded
from weft.base.lifetime import exit_on_termination
from weft.cli import _complete
from weft.cli._streams import guard_streams
from weft.errors import UsageError, WeftError
from weft.native import cuts

NOT_COMMANDS = {"main"}


class Command(Protocol):
    """The interface of a command's module; its docstring is its help.

    TAKES_PROGRAM: what follows `--` comes as rest.
    """

    def register(self, subparsers: object) -> None:
        """Declare the command and its options."""

    def run(self, args: argparse.Namespace) -> int:
        """Run the command, and return the exit status."""


def command_names() -> list[str]:
    """Return the commands' names: every public module of weft.cli is one."""
    import pkgutil  # which is of no use to a line that names its command

    names = (module.name for module in pkgutil.iter_modules(cli.__path__))
    return sorted(name for name in names if _can_be_command(name))


def _can_be_command(word: str) -> bool:
    return word.isidentifier() and word not in NOT_COMMANDS and not word.startswith("_")


def is_command(word: str) -> bool:
    """Return whether a word is a command's name: to list them all takes a tenth of a short command."""
    return _can_be_command(word) and importlib.util.find_spec(f"weft.cli.{word}") is not None


def load_command(name: str) -> Command:
    """Return the module of one command, imported."""
    module: Any = importlib.import_module(f"weft.cli.{name}")
    command: Command = module
    return command


class ExactParser(argparse.ArgumentParser):
    """Accepts options by their whole names only: `--out`, a directory, is never short for `--output`, a file."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError, which explains in one sentence what is wrong with the line; argparse itself would print
        the usage of all options."""
        from weft.cli._wrong_words import explain_refusal

        raise UsageError(explain_refusal(self.prog.removeprefix("weft").strip(), message))


def make_parser(names: Sequence[str]) -> argparse.ArgumentParser:
    """Build the argument parser that knows the commands `names`."""
    top = ExactParser(prog="weft", description=weft.__doc__)
    top.add_argument("--version", action="version", version=f"weft {weft.__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in names:
        load_command(name).register(subparsers)
    return top


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options and arguments of a command line. UsageError if it is wrong."""
    # Only the named command is imported: `weft run` must not pay for the analyses' start.
    if arguments and arguments[0].startswith("-") and arguments[0] != "--version":
        from weft.cli._wrong_words import explain_unknown

        raise UsageError(explain_unknown("", arguments[:1], ["--version", "--help"]))
    named = list(arguments[:1]) if arguments and is_command(arguments[0]) else command_names()
    rest: list[str] = []
    if len(named) == 1 and "--" in arguments and getattr(load_command(named[0]), "TAKES_PROGRAM", False):
        at = arguments.index("--")
        arguments, rest = arguments[:at], list(arguments[at + 1 :])
    if len(named) == 1:
        arguments = join_dashed_values(arguments, getattr(load_command(named[0]), "TAKES_DASHED", ()))
    top = make_parser(named)
    args, unknown = top.parse_known_args(arguments, argparse.Namespace(rest=rest))
    if unknown:
        from weft.cli._wrong_words import explain_unknown

        raise UsageError(explain_unknown(args.command, unknown, options_of(top, args.command)))
    return args


def options_of(top: argparse.ArgumentParser, command: str) -> list[str]:
    """Return the options that a command has, those of `weft` itself among them."""
    [below] = [one for one in top._actions if isinstance(one, argparse._SubParsersAction)]
    return [*below.choices[command]._option_string_actions, *top._option_string_actions]


def overview() -> str:
    """Return the list of commands by task, which is shown if the user names no command."""
    from weft.cli._overview import render_overview

    return render_overview(make_parser(command_names()))


def join_dashed_values(arguments: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return a command line in which a value that begins with a dash is joined to its option: `--link -lm` becomes
    `--link=-lm`. `options`: those that may have such values."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1] in options and word.startswith("-"):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that a line names, and return its exit code. Errors of all commands are printed here and nowhere
    else."""
    # What is imported and read stays: to look through it for garbage, also at the end, is a tenth of a short command.
    if argv is None:
        exit_on_termination()
        guard_streams()
        cuts.report_cuts()
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
    arguments = list(sys.argv[1:] if argv is None else argv)
    if is_free_threaded(sys.version):
        return print_error(
            UsageError(explain_free_threaded("this interpreter", sys.version, "in which Weft does not run"))
        )
    if _complete.is_completion_request():
        _complete.complete_and_exit(make_parser(_complete.commands_on_line(command_names())))
    try:
        try:
            if arguments in ([], ["help"], ["--help"], ["-h"]):
                print(overview())
                return 0
            if arguments[0] == "help":
                arguments = [*arguments[1:2], "--help"]
            args = parse_arguments(arguments)
            status = int(load_command(args.command).run(args))
            cuts.check_for_cuts()
            return status
        except Exception:
            cuts.check_for_cuts()  # what fails over what is no longer there says nothing of it
            raise
        finally:
            sys.stdout.flush()  # a full disk is an error of the command, not one of Python's end
    except WeftError as error:
        return print_error(error)
    except BrokenPipeError:  # the reader of a long output has left (`weft dump | head`), which is no error
        return 0
    except KeyboardInterrupt:
        return 130


def print_error(error: WeftError) -> int:
    """Print an error as one line and return its exit code."""
    hint = " (see `weft --help`)" if type(error) is UsageError and not str(error) else ""
    print(f"weft: {error}{hint}", file=sys.stderr)
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
