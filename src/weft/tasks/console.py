"""The prompt of `weft tasks`: calls the debugger's commands by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TextIO

from weft.debug.prompt import Command, Console, Quit, make_help, parse_command
from weft.errors import UsageError
from weft.tasks.answers import MOST_ROWS, render_answer
from weft.tasks.debugger import Answer, TaskDebugger
from weft.tasks.processes import DebuggedProcesses

SCHEMA = "weft-tasks/1"
COMMANDS: dict[str, Command] = {
    "tasks": Command("tasks [--tree] [FILTER]...", "list all tasks: state, place, what each waits for", ("t",)),
    "task": Command(
        "task [ID]",
        "choose the task for later commands; ID: its number, its name, or an expression whose value is the task",
    ),
    "name": Command("name ID NAME", "give a task a name"),
    "next": Command(
        "next [N]", "run to the task's next line on whichever thread it continues, stepping over function calls", ("n",)
    ),
    "step": Command("step [N]", "run to the task's next line, stepping into function calls", ("s",)),
    "finish": Command("finish", "run to the end of the function", ("f",)),
    "continue": Command("continue", "run to the next breakpoint in any task, or to the end", ("c",)),
    "follow": Command(
        "follow parent|child", "choose which task to follow when the task spawns another one: itself or the new one"
    ),
    "where": Command(
        "where [--all] [ID]",
        "print the frames of a task (--all: also those of libraries), and the tasks that spawned it",
        ("bt", "w"),
    ),
    "print": Command(
        "print[/FORMAT] EXPR", "print the value of an expression at the task's line", ("p",), "print/x flags"
    ),
    "locals": Command("locals", "print the variables of the current frame"),
    "up": Command("up [N]", "choose the next outer frame, of the caller or awaiter, for print, locals and list"),
    "down": Command("down [N]", "choose the next inner frame"),
    "set": Command("set NAME = EXPR", "give a variable another value", (), "set total = 0"),
    "list": Command("list [LINE]", "print the source around the task's line", ("l",)),
    "break": Command(
        "break WHERE [task ID [descendants]] [if EXPR]",
        "stop at a line or function; ID may be the pedigree of a task that does not exist yet",
        ("b",),
        "break work if n > 3",
    ),
    "tbreak": Command("tbreak WHERE [task ID [descendants]] [if EXPR]", "the same as break, but only once", ("tb",)),
    "until": Command("until WHERE", "run until the task comes there", ("u",), "until 40"),
    "watch": Command(
        "watch EXPR",
        "stop where the value of an expression changes, in any task, until the current frame returns",
        (),
        "watch total",
    ),
    "breakpoints": Command("breakpoints", "list all breakpoints and watched expressions"),
    "delete": Command("delete [N]", "delete a breakpoint or a watch, or all", ("d",)),
    "catch": Command(
        "catch [EXCEPTION | off]",
        "stop where an exception ends a task, while the task's frames still exist",
        (),
        "catch ValueError",
    ),
    "hold": Command("hold ID", "keep that task from making a step while the others continue"),
    "release": Command("release [ID]", "let a held task continue, or all of them"),
    "waits": Command("waits", "print which task waits for which, and the deadlocks"),
    "process": Command(
        "process [PID | parent]", "go to a child process of multiprocessing, or back; without PID: list them"
    ),
    "help": Command("help [COMMAND]", "print this list", ("h", "?")),
    "quit": Command("quit", "end the program", ("q", "exit")),
}
WHERE = ("FILE:LINE", "LINE", "FUNCTION")
LEGEND = "FILTER is new, top, middle, heap, queued, running, task, thread, work, waiting, under=ID or name=TEXT; "


class TaskConsole(Console):
    """The console for the tasks of one program and its child processes."""

    schema = SCHEMA

    def __init__(self, debugger: TaskDebugger, *, as_json: bool, out: TextIO | None = None) -> None:
        super().__init__(as_json=as_json, out=out)
        self.processes = DebuggedProcesses(debugger)

    @property
    def debugger(self) -> TaskDebugger:
        """Return the debugger of the process that commands refer to."""
        return self.processes.current

    def written(self) -> str:
        """Return what the program has written."""
        return self.processes.first.backend.output()

    def render_answer(self, answer: Answer) -> list[str]:
        """Return an answer in words."""
        return render_answer(answer)

    def answer(self, line: str) -> Answer:
        """Execute one typed command, and return its answer. WeftError if it cannot be executed."""
        name, rest = parse_command(line, COMMANDS)
        d = self.debugger
        if name == "quit":
            raise Quit
        bare: dict[str, Callable[[], Answer]] = {"waits": d.waits, "breakpoints": d.breakpoints, "locals": d.locals}
        for how in ("finish", "continue"):
            bare[how] = partial(d.advance, how)
        if name in bare:
            if rest:
                raise UsageError(f"`{name}` takes no more arguments: {COMMANDS[name].usage}")
            return bare[name]()
        calls: dict[str, Callable[[str], Answer]] = {
            "tasks": partial(d.tasks, row_limit=None if self.json else MOST_ROWS), "task": d.set_focus, "name": d.name,
            "where": d.where, "print": d.evaluate, "list": d.list_source, "break": d.break_at, "tbreak": d.break_once,
            "until": d.until, "watch": d.watch, "delete": d.delete, "catch": d.catch,
            "hold": d.hold, "release": d.release, "set": d.assign,
            "up": partial(d.move_frame, 1), "down": partial(d.move_frame, -1), "follow": d.follow,
            "next": partial(d.advance, "next"), "step": partial(d.advance, "step"),
            "process": self.processes.switch_process, "help": lambda text: make_help(text, COMMANDS, WHERE, LEGEND),
        }  # fmt: skip
        return calls[name](rest)
