"""The API of `weft tasks`: debug a program from Python. The command line uses it, too."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from weft.base.lifetime import temporary_folder
from weft.base.processes import is_python
from weft.errors import UsageError
from weft.tasks.attached import AttachedBackend
from weft.tasks.backend import Backend
from weft.tasks.commandline import parse_python_command
from weft.tasks.console import TaskConsole
from weft.tasks.debugger import TaskDebugger
from weft.tasks.python import PythonBackend

Answer = dict[str, Any]

CILK_PARTS: Final = {
    "Cilk-5": "weft.cilk.cilk5.backend:Cilk5Backend",
    "OpenCilk": "weft.cilk.opencilk.backend:OpenCilkBackend",
    "as OpenMP": "weft.cilk.openmp_source:build_as_openmp",
}
"""What only programs in Cilk need, as module and name: it is imported for such a program."""


class Session:
    """A debugged program. Commands are those of the prompt; answers are dictionaries."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.debugger = TaskDebugger(backend)
        self.console = TaskConsole(self.debugger, as_json=True)
        self.first: Answer = {}
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Session:
        try:
            self.first = self.debugger.start()
        except BaseException:
            self.backend.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.console.processes.close()
        self.backend.close()
        if self.folder is not None:
            self.folder.cleanup()

    def do(self, command: str) -> Answer:
        """Execute one command of the prompt, and return the answer that `--format json` gives.
        WeftError if it fails.
        """
        return self.console.answer(command)

    def output(self) -> str:
        """Return what the program has written since the last call."""
        return self.backend.output()


def session(
    command: Sequence[str],
    *,
    runtime: str = "",
    pid: int = 0,
    core: Path | None = None,
    record: str = "",
    replay: str = "",
    as_openmp: bool = False,
) -> Session:  # fmt: skip
    """Return a session that debugs a program, to be used as `with session(["prog.py"]) as s: s.do("step")`.

    `command`: the program and its arguments. `pid`, `core`: debug this running process, or this core file, instead of
    starting the program. `record`, `replay`: the file to which the order of the tasks' turns is written, or from which
    it is replayed. `as_openmp`: the program is a source in Cilk, which is translated to OpenMP and compiled first.
    UsageError if the arguments cannot be combined.
    """
    if pid or core:
        if record or replay:
            raise UsageError(
                "--record and --replay need the program from its start: they cannot be combined with --pid or --core"
            )
        if pid and is_python(pid, f"--pid {pid}"):
            return Session(AttachedBackend(pid))
        # It imports numpy and drives gdb; Python programs need neither.
        from weft.tasks.openmp import NativeBackend

        return Session(NativeBackend(command, pid=pid, core=core))
    if as_openmp:
        folder = temporary_folder("cilk")
        program = str(load_cilk_part("as OpenMP")(command[0], Path(folder.name)))
        opened = Session(select_backend([program, *command[1:]], runtime, record=record, replay=replay))
        opened.folder = folder
        return opened
    return Session(select_backend(list(command), runtime, record=record, replay=replay))


def select_backend(command: list[str], runtime: str = "", *, record: str = "", replay: str = "") -> Backend:
    """Return the backend that debugs a program, chosen by its kind: Python, OpenMP, OpenCilk or Cilk-5. `runtime`: the
    path of the OpenMP runtime to use, empty to search for one. `record`, `replay`: the file with the order of tasks.
    UsageError if there is no such program.
    """
    if (found := parse_python_command(command)) is not None:
        return PythonBackend(found, record=record, replay=replay)
    if command[0].endswith(".cilk"):
        if record or replay:
            raise UsageError("the order of tasks is recorded and replayed for asyncio and OpenMP, not for Cilk-5")
        return open_cilk_backend("Cilk-5", command)
    # As above.
    from weft.tasks.openmp import NativeBackend
    from weft.tasks.runtime import has_opencilk, has_openmp

    path = command[0] if "/" in command[0] else shutil.which(command[0]) or command[0]
    if not Path(path).is_file():
        raise UsageError(f"{command[0]}: there is no such file")
    if not has_openmp(code := Path(path).read_bytes()) and has_opencilk(code):
        if record or replay:
            raise UsageError("the order of tasks is recorded and replayed for asyncio and OpenMP, not for OpenCilk")
        return open_cilk_backend("OpenCilk", [path, *command[1:]])
    turns = ("record", record) if record else ("replay", replay) if replay else None
    return NativeBackend([path, *command[1:]], runtime, turns=turns)


def open_cilk_backend(sort: str, command: list[str]) -> Backend:
    """Return the backend that debugs a Cilk program of a sort (a key of `CILK_PARTS`)."""
    backend: Backend = load_cilk_part(sort)(command)
    return backend


def load_cilk_part(name: str) -> Any:
    """Return the class or function that `CILK_PARTS` names for a sort of Cilk program."""
    module, _, attribute = CILK_PARTS[name].partition(":")
    return getattr(import_module(module), attribute)
