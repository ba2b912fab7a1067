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
    "tasks": Command("tasks [--tree] [FILTER]...", "all tasks: state, place, what each waits for", ("t",)),
    "task": Command(
        "task [ID]", "the task that commands mean, wherever it is; ID: its number, its name, or what holds it"
    ),
    "name": Command("name ID NAME", "give a task a name"),
    "next": Command("next [N]", "to the task's next line, over functions, wherever it goes on", ("n",)),
    "step": Command("step [N]", "to the task's next line, into functions", ("s",)),
    "finish": Command("finish", "to the end of the function", ("f",)),
    "continue": Command("continue", "run to the next breakpoint in any task, or to the end", ("c",)),
    "follow": Command(
        "follow parent|child", "which to follow when the task makes another one: the task itself or the new one"
    ),
    "where": Command(
        "where [--all] [ID]",
        "the frames of a task (--all: those of libraries, too), and the tasks that spawned it",
        ("bt", "w"),
    ),
    "print": Command(
        "print[/FORMAT] EXPR", "the value of an expression at the line at which the task is", ("p",), "print/x flags"
    ),
    "locals": Command("locals", "the variables of the current frame"),
    "up": Command("up [N]", "a frame further out, that of the caller or awaiter: what print, locals and list mean"),
    "down": Command("down [N]", "a frame further in"),
    "set": Command("set NAME = EXPR", "give a variable another value", (), "set total = 0"),
    "list": Command("list [LINE]", "the source around the line at which the task is", ("l",)),
    "break": Command(
        "break WHERE [task ID [descendants]] [if EXPR]",
        "stop there; ID may be the pedigree of a task that does not exist yet",
        ("b",),
        "break work if n > 3",
    ),
    "tbreak": Command("tbreak WHERE [task ID [descendants]] [if EXPR]", "the same, for the first time only", ("tb",)),
    "until": Command("until WHERE", "run until the task comes there", ("u",), "until 40"),
    "watch": Command(
        "watch EXPR", "stop where the value changes, in any task, until the current frame returns", (), "watch total"
    ),
    "breakpoints": Command("breakpoints", "all breakpoints, and what is watched"),
    "delete": Command("delete [N]", "delete a breakpoint or a watch, or all", ("d",)),
    "catch": Command(
        "catch [EXCEPTION | off]", "stop where a task dies of an exception, with its frames", (), "catch ValueError"
    ),
    "hold": Command("hold ID", "keep that task from making a step while the others continue"),
    "release": Command("release [ID]", "let it continue, or all that are held"),
    "waits": Command("waits", "who waits for whom, and the deadlocks"),
    "process": Command("process [PID | parent]", "go to a child process of multiprocessing, or back; alone: list them"),
    "help": Command("help [COMMAND]", "this list", ("h", "?")),
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
