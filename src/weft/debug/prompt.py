"""The prompt: read commands from a person, a script or a machine, and answer with text or JSON lines."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import readline
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from weft.base.debuggers import find_gdb
from weft.base.interrupts import deferring_interrupts, immediate_interrupts, interrupting_after
from weft.debug.answers import tell
from weft.debug.debugger import Answer, Debugger
from weft.errors import UsageError, WeftError

SCHEMA = "weft-debug/1"
HISTORY = 1000


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its usage, what it does in one line, its short forms, and an example."""

    usage: str
    does: str
    short: tuple[str, ...] = ()
    example: str = ""


COMMANDS: dict[str, Command] = {
    "ranks": Command("ranks", "print where every rank is; ranks at the same place share a line", ("r",)),
    "where": Command(
        "where [RANKS] [native]", "print the stack of a rank; `native` adds C frames to those of Python", ("bt", "w")
    ),
    "print": Command(
        "print[/FORMAT] EXPR [@RANKS]",
        "print the value of an expression on all ranks (or some), side by side",
        ("p",),
        "print grid[3] @0-1; p/x flags",
    ),
    "info": Command(
        "info locals [@RANKS] | info breakpoints | info ranks",
        "print a frame's variables, or do the same as `breakpoints` or `ranks`",
        ("i",),
        "info locals @0,2",
    ),
    "frame": Command(
        "frame [N]", "choose the frame for print, info locals and set; `where` shows the numbers", (), "frame 1"
    ),
    "up": Command("up [N]", "choose the next outer frame, that of the caller", (), "up"),
    "down": Command("down [N]", "choose the next inner frame", (), "down"),
    "set": Command(
        "set [var] NAME = EXPR [@RANKS]",
        "give a variable another value; the replay may differ from its record after that",
        (),
        "set total = 0 @1",
    ),
    "display": Command(
        "display[/FORMAT] [EXPR [@RANKS]]", "print an expression at every stop", (), "display total @all"
    ),
    "undisplay": Command("undisplay [N]", "stop printing an expression at every stop"),
    "list": Command("list [LINE | FILE:LINE]", "print the source around the rank's line", ("l",)),
    "rank": Command("rank N", "choose the rank for commands that name none"),
    "next event": Command(
        "next event [N] [@RANK]", "run a rank over its next calls, and other ranks as far as these calls need", ("ne",)
    ),
    "prev event": Command("prev event [N] [@RANK]", "go back to before a rank's last calls, by a new replay", ("pe",)),
    "next": Command("next [@RANKS]", "run to the next line, stepping over function calls", ("n",)),
    "step": Command("step [@RANKS]", "run to the next line, stepping into function calls", ("s",)),
    "skip": Command(
        "skip [FUNCTION | FILE]",
        "let `step` step over a function or file from now on; without a name: list what is skipped",
        (),
        "skip norm.h",
    ),
    "unskip": Command("unskip [FUNCTION | FILE]", "let `step` go into a skipped function or file again, or into all"),
    "finish": Command("finish [@RANKS]", "run until the function has returned, and print what it returned"),
    "until": Command(
        "until WHERE",
        "run forwards or back to right before a call; other ranks run only as far as that needs",
        ("u",),
    ),
    "break": Command(
        "break WHERE [if EXPR | FILTER]",
        "stop at RANK:EVENT, [RANK:]FILE:LINE[#N] or [RANK:]FUNCTION[#N]; only if EXPR is true, or only at calls "
        "that match FILTER",
        ("b",),
        "break solver.c:40 if residual < tol; break MPI_Send tag:5 peer:1",
    ),
    "tbreak": Command("tbreak WHERE [if EXPR | FILTER]", "the same as break, but only once", ("tb",), "tbreak main"),
    "watch": Command(
        "watch EXPR [@RANK]",
        "stop where the value of an expression changes, until its frame returns",
        (),
        "watch total",
    ),
    "ignore": Command("ignore N COUNT", "ignore the next visits of a breakpoint", (), "ignore 1 5"),
    "breakpoints": Command("breakpoints", "list all breakpoints"),
    "delete": Command("delete [N]", "delete a breakpoint, or all", ("d",)),
    "continue": Command("continue", "run to the next breakpoint on any rank, or to the end", ("c",)),
    "message": Command(
        "message [RANK | RANK:EVENT]", "print the message of a rank's send or receive: from, to, content", ("m",)
    ),
    "reverse-continue": Command(
        "reverse-continue",
        "go back to the last breakpoint or change of a watched value, by new replays",
        ("rc",),
        "reverse-continue",
    ),
    "reverse-next": Command(
        "reverse-next [@RANK]", "go back to the line before, stepping over function calls", ("rn",), "reverse-next @1"
    ),
    "reverse-step": Command(
        "reverse-step [@RANK]", "go back to the line before, stepping into function calls", ("rs",), "reverse-step"
    ),
    "messages": Command(
        "messages [@RANKS]",
        "list messages that were sent but not yet received, and receives that wait, by channel",
        (),
        "messages @0-1",
    ),
    "restart": Command("restart", "begin a new replay from the start; breakpoints stay"),
    "attach": Command("attach RANK", "open a gdb or Python console on a rank", ("a",)),
    "help": Command("help [COMMAND]", "print this list", ("h", "?")),
    "quit": Command("quit", "end the replay", ("q", "exit")),
}
WHERE = (
    "RANK:EVENT",
    "RANK:from=RANK[,tag=N][#N]",
    "[RANK:]FILE:LINE[#N]",
    "[RANK:]FUNCTION[#N]",
    "t=SECONDS",
    "finding:N",
)

STARTING = ("run", "r", "start")
"""Commands by which other debuggers start the program; here it has been started, and waits for `continue`."""


class Quit(Exception):
    """The person has left the prompt."""


def parse_command(command_line: str, commands: dict[str, Command] = COMMANDS) -> tuple[str, str]:
    """Return the full name of the command in a line, and the rest of the line. UsageError, with the likely command, if
    there is no such command or the short form is ambiguous.
    """
    words = command_line.split(None, 1)
    name, rest = words[0], words[1].strip() if len(words) > 1 else ""
    if found := re.fullmatch(r"([a-z]+)(/\S+)", name):  # p/x
        name, rest = found[1], f"{found[2]} {rest}"
    if "next event" in commands and name in ("next", "prev", "n") and re.match(r"event(s\b|\b)", rest):
        name, rest = ("prev" if name == "prev" else "next") + " event", re.sub(r"^events?\s*", "", rest)
    shorts = {short: known for known, command in commands.items() for short in command.short}
    name = shorts.get(name, name)
    if name in commands:
        return name, rest
    begun = [known for known in commands if known.startswith(name)]
    if len(begun) == 1:
        return begun[0], rest
    if name in STARTING:
        raise UsageError(f"there is no command `{name}`: the program is stopped, and `continue` lets it run")
    near = difflib.get_close_matches(name, [*commands, *shorts], 1) or begun
    hint = f": did you mean `{shorts.get(near[0], near[0])}`?" if near else ": `help` lists the commands"
    raise UsageError(f"there is no command `{name}`{hint}")


def split_ranks(arguments: str) -> tuple[str, str]:
    """Return expression and ranks of `x + 1 @0,2`; the ranks are empty if none are given."""
    found = re.fullmatch(r"(.*?)\s*@\s*([\d,\-]+|all|\.)", arguments)
    return (found[1].strip(), found[2]) if found else (arguments, "")


def parse_count_and_rank(arguments: str, debugger: Debugger) -> tuple[int, int]:
    """Return the count and the rank of `[N] [@RANK]`; if they are missing, 1 and the rank in focus. UsageError for
    anything else.
    """
    text, ranks = split_ranks(arguments)
    if text and not (text.isdigit() and int(text)):
        raise UsageError(f"{text!r} is not a number of events, such as 3")
    chosen = debugger.ranks_of(ranks)
    if len(chosen) != 1:
        raise UsageError("give one rank")
    return int(text or 1), chosen[0]


class Console:
    """Read commands from a terminal, a script, or a machine (`json`), one after the other; a subclass answers them."""

    schema = SCHEMA
    interrupted = "interrupted"

    def __init__(self, *, as_json: bool, out: TextIO | None = None) -> None:
        self.json = as_json
        self.out = out or sys.stdout
        self.failed = False
        self.limit = 0.0
        """Seconds after which a command is interrupted; 0: never."""
        self._last = ""

    def answer(self, line: str) -> Answer:
        """Answer one command. WeftError if it fails."""
        raise NotImplementedError

    def written(self) -> str:
        """Return what the program has written since the last call."""
        raise NotImplementedError

    def render_answer(self, answer: Answer) -> list[str]:
        """Return an answer as lines."""
        raise NotImplementedError

    # One line in, one answer out

    def do(self, line: str) -> None:
        """Execute one command, and print its answer or its error. Empty lines and comments are ignored."""
        line = line.strip()
        if not line or line.startswith("#"):
            return
        begun = time.monotonic()
        try:
            with immediate_interrupts(), interrupting_after(self.limit):
                answer = self.answer(line)
            self.show(line, answer, None)
        except WeftError as error:
            self.failed = True
            self.show(line, None, str(error))
        except KeyboardInterrupt:
            self.failed = True
            late = bool(self.limit) and time.monotonic() - begun >= self.limit
            self.show(line, None, self.too_late() if late else self.interrupted)

    def too_late(self) -> str:
        """Return the message for a command that was not done within the limit."""
        return f"not done after {self.limit:g} s"

    def show(self, line: str, answer: Answer | None, error: str | None) -> None:
        """Print an answer, and what the program wrote meanwhile."""
        with deferring_interrupts():
            self._show(line, answer, error)

    def _show(self, line: str, answer: Answer | None, error: str | None) -> None:
        """Print what the program has written meanwhile, and the answer or the error of a command, as text or as one
        line of JSON.
        """
        written = self.written()
        if self.json:
            ok = {"ok": True, "answer": answer} if error is None else {"ok": False, "error": error}
            print(
                json.dumps({"schema": self.schema, "command": line, **ok, "output": written}), file=self.out, flush=True
            )
            return
        if written:
            print(written, end="" if written.endswith("\n") else "\n", file=self.out)
        if error is not None:
            print(f"weft: {error}", file=self.out)
        elif answer is not None:
            for text in self.render_answer(answer):
                print(text, file=self.out)
        self.out.flush()

    def run(self, lines: Iterable[str], *, echo: bool) -> None:
        """Execute commands until their end; Ctrl-C between two commands does nothing. `echo`: print each command before
        its answer.
        """
        with deferring_interrupts():
            for line in lines:
                if echo and line.strip() and not self.json:
                    print(f"(weft) {line.strip()}", file=self.out)
                self.do(line)

    @staticmethod
    def read_script() -> Iterator[str]:
        """Yield the lines of a script from standard input. Ctrl-C while it waits for a line ends the session."""
        while True:
            with immediate_interrupts():
                line = sys.stdin.readline()
            if not line:
                return
            yield line

    def read_typed_lines(self) -> Iterator[str]:
        """Yield the lines that a person types. An empty line repeats the last command if that was a step or `list`."""
        while True:
            try:
                line = sys.stdin.readline() if self.json else read_typed_line()
            except EOFError:
                print(file=self.out)
                return
            except KeyboardInterrupt:
                print(file=self.out)
                continue
            if self.json and not line:
                return
            if not line.strip() and not self.json:
                line = self._last
            self._last = line if re.match(r"(n|s|ne|pe|next|step|prev|list|l)\b", line.strip()) else ""
            yield line


def read_typed_line() -> str:
    """Read a line from the terminal."""
    with immediate_interrupts():
        return input("(weft) ")


_FRAME_COMMANDS = ("frame", "up", "down", "set", "watch", "display", "undisplay", "info")


class Prompt(Console):
    """The console of a replay."""

    interrupted = "interrupted: the ranks stop at their next calls"

    def __init__(self, debugger: Debugger, *, as_json: bool, out: TextIO | None = None) -> None:
        super().__init__(as_json=as_json, out=out)
        self.debugger = debugger

    def written(self) -> str:
        """Return what the ranks have written."""
        return self.debugger.replica.output()

    def render_answer(self, answer: Answer) -> list[str]:
        """Return an answer as lines."""
        return tell(answer)

    def too_late(self) -> str:
        """Return the message for a command beyond the limit, with where the ranks were."""
        return f"{super().too_late()}: " + "; ".join(" ".join(line.split()) for line in tell(self.debugger.ranks()))

    def answer(self, line: str) -> Answer:
        """Execute one command, and return its answer. If the ranks are stopped afterwards, the answer also has the
        displayed expressions. WeftError if the command fails.
        """
        answer = self._execute(line)
        if answer["kind"] == "stopped" and not answer["over"] and self.debugger.frames.displays:
            answer["shown"] = self.displayed()
        return answer

    def _execute(self, line: str) -> Answer:
        """Execute one command line, and return its answer. Quit if it is `quit`."""
        name, rest = parse_command(line)
        d = self.debugger
        if name == "quit":
            raise Quit
        simple: dict[str, Callable[[], Answer]] = {
            "ranks": d.ranks, "breakpoints": d.stops.show, "continue": d.go_on, "restart": d.begin,
            "reverse-continue": d.go_back,
        }  # fmt: skip
        if name in simple:
            if rest:
                raise UsageError(f"`{name}` takes no more arguments: {COMMANDS[name].usage}")
            return simple[name]()
        if name in ("next event", "prev event"):
            return (d.next_event if name == "next event" else d.prev_event)(*parse_count_and_rank(rest, d))
        if name in ("next", "step", "finish"):
            text, ranks = split_ranks(rest)
            if text:
                raise UsageError(f"`{name}` goes by one line: {COMMANDS[name].usage}")
            return d.step(name, d.ranks_of(ranks))
        if name in ("reverse-next", "reverse-step"):
            text, ranks = split_ranks(rest)
            if text or len(d.ranks_of(ranks)) != 1:
                raise UsageError(f"`{name}` goes back by one line on one rank: {COMMANDS[name].usage}")
            return d.line_back(name.removeprefix("reverse-"), d.ranks_of(ranks)[0])
        if name in _FRAME_COMMANDS:
            return self._execute_frame_command(name, rest)
        if name == "print":
            return d.looks.evaluate(*split_ranks(rest))
        if name == "where":
            words = rest.split()
            native = "native" in words
            return d.looks.where(" ".join(w for w in words if w != "native").lstrip("@"), native=native)
        if name == "help":
            return make_help(rest)
        if name == "attach":
            return self.attach(rest)
        rest = rest.removeprefix("@") if name in ("message", "messages", "rank") else rest
        calls: dict[str, Callable[[str], Answer]] = {
            "list": d.looks.source, "rank": d.select, "until": d.until, "break": d.stops.break_at,
            "delete": d.stops.delete,
            "message": d.looks.message, "messages": d.looks.queues, "ignore": d.stops.ignore, "skip": d.skips.add,
            "unskip": d.skips.remove,
            "tbreak": lambda text: d.stops.break_at(text, once=True),
        }  # fmt: skip
        return calls[name](rest)

    def _execute_frame_command(self, name: str, rest: str) -> Answer:
        """Execute a command about frames, variables or displayed expressions, and return its answer.

        `name`: the full name of the command. `rest`: the rest of the line.
        """
        d = self.debugger
        text, ranks = split_ranks(rest)
        if name in ("frame", "up", "down"):
            if text and not text.isdigit():
                raise UsageError(f"{text!r} is not a number of frames: {COMMANDS[name].usage}")
            by = {"up": int(text or 1), "down": -int(text or 1), "frame": 0}[name]
            return d.frames.choose(d.ranks_of(ranks)[0], int(text) if name == "frame" and text else None, by)
        if name == "set":
            return d.frames.assign(text, d.ranks_of(ranks))
        if name == "watch":
            return d.stops.watch(text, d.ranks_of(ranks))
        if name == "undisplay":
            d.frames.undisplay(rest)
            return {"kind": "display", "shown": self.displayed()}
        if name == "display":
            if text:
                d.frames.display(text, ranks)
            return {"kind": "display", "shown": self.displayed()}
        topics: dict[str, Callable[[], Answer]] = {
            "locals": lambda: d.frames.variables(d.ranks_of(ranks)), "breakpoints": d.stops.show,
            "ranks": d.ranks, "display": lambda: self._execute_frame_command("display", ""),
        }  # fmt: skip
        found = [topic for topic in topics if text and topic.startswith(text)]
        if len(found) != 1:
            raise UsageError(f"give one of info {', info '.join(topics)}")
        return topics[found[0]]()

    def displayed(self) -> list[Answer]:
        """Return the current values of the displayed expressions."""
        d = self.debugger
        return [d.looks.evaluate(text, ranks or ".") | {"id": n} for n, (text, ranks) in d.frames.displays.items()]

    def attach(self, text: str) -> Answer:
        """Attach gdb, or a Python console, to one rank until the person leaves it. Without a terminal, return the
        command that attaches gdb. `text`: the rank as the user wrote it.
        """
        chosen = self.debugger.ranks_of(text)
        if len(chosen) != 1:
            raise UsageError("give one rank")
        rank = chosen[0]
        hand = self.debugger.python_hand(rank)
        if hand is None:
            pid = self.debugger.release(rank)
            if self.json or not sys.stdin.isatty():
                return {"kind": "text", "text": f"rank {rank} is process {pid}: gdb -p {pid}", "pid": pid}
            subprocess.run([find_gdb() or "gdb", "--quiet", "-p", str(pid)], check=False)
            return {"kind": "text", "text": f"back from rank {rank}"}
        if self.json or not sys.stdin.isatty():
            raise UsageError("a console needs a terminal: use `print` instead")
        while True:
            try:
                line = input(f"rank {rank} >>> ")
            except EOFError:
                return {"kind": "text", "text": f"\nback from rank {rank}"}
            if line.strip():
                try:
                    if shown := hand.execute(line, 0):
                        print(shown, file=self.out)
                except WeftError as error:
                    print(error, file=self.out)


def make_help(
    text: str,
    commands: dict[str, Command] = COMMANDS,
    where: Sequence[str] = WHERE,
    legend: str = "RANKS is 0,2-3 or all; ",
) -> Answer:
    """Return help on the command that `text` names, or on all commands if it is "".

    `where`: the forms that WHERE can have. `legend`: explains other words in the usage of the commands.
    """
    if text:
        name = parse_command(text, commands)[0]
        command = commands[name]
        short = f"   (short: {', '.join(command.short)})" if command.short else ""
        lines = [f"{command.usage}{short}", f"  {command.does}"]
        lines += [f"  for example: {command.example}"] if command.example else []
        if "WHERE" in command.usage:
            lines.append(f"  WHERE is one of {', '.join(where)}")
    else:
        width = max(len(command.usage) for command in commands.values())
        lines = [f"{command.usage:<{width}}  {command.does}" for command in commands.values()]
        lines.append(legend + "WHERE is one of " + ", ".join(where))
    return {"kind": "help", "lines": lines}


@contextlib.contextmanager
def history(words: list[str], name: str = "debug_history") -> Iterator[None]:
    """During a `with` block, complete words at the terminal and keep a history of typed lines, which is loaded before
    and saved after. `words`: the words to complete. `name`: the name of the file for the history.
    """
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "weft"
    file = state / name
    with contextlib.suppress(OSError):
        state.mkdir(parents=True, exist_ok=True)
        readline.read_history_file(file)

    def complete(begun: str, state_: int) -> str | None:
        found = [word for word in words if word.startswith(begun)]
        return found[state_] if state_ < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.set_history_length(HISTORY)
            readline.write_history_file(file)


def completions(debugger: Debugger) -> list[str]:
    """Return the words that the prompt completes: names of commands, functions and calls of the program, and its
    files.
    """
    trace = debugger.record.trace
    rank = trace.ranks[0]
    sites = (rank.site(int(i)) for i in set(rank.events["site"][:100000].tolist()))
    names = {site.function for site in sites if site.function}
    made = {trace.functions[int(f)].name for f in set(rank.events["function"][:100000].tolist())}
    files = [f"{Path(file).name}:" for file in debugger.record.files()]
    return sorted({*(w for name in COMMANDS for w in name.split()), *names, *made, *files, "event", "native", "all"})
