"""`python FOLDER SOCKET LIBRARY KIND TARGET ARGS`: run a program as its own main module, with an agent beside it.

KIND is `file`, `-m` or `-c` (commandline.py).

In an MPI rank that is replayed for a debugger, weft/debug/agent.py calls `follow_rank_tasks` instead; in a rank of
`weft run --tasks`, start/sitecustomize.py calls `record_task_steps`.
"""

import importlib.util
import os
import socket
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

if sys.version_info < (3, 11) or "free-threading" in sys.version:
    sys.exit(1)  # the program's Python; python.py says why: it looks at the version where a program does not begin


RETRY_STATUS = "75"
"""The answer for a program that is just importing asyncio (EX_TEMPFAIL)."""


def load_agent_module(module_name: str = "agent") -> types.ModuleType:
    """Import a module of this folder and return it. It becomes part of a private package `_weft_inside`, so that it
    does not mix with a `weft` that the program imports.
    """
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        "_weft_inside", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["_weft_inside"] = package
    spec.loader.exec_module(package)
    return importlib.import_module("_weft_inside." + module_name)


def run_with_agent() -> None:
    """Run the program under an agent that stops it before its first line. At the end, report its exit status to the
    debugger, and exit with it.
    """
    line = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(line.fileno(), False)
    library, kind, sys.argv = sys.argv[2], sys.argv[3], sys.argv[4:]
    agent = load_agent_module().Agent(line, library)
    program = importlib.import_module("_weft_inside.program")
    agent.flush_output = program.flush_output
    status = program.run_program(kind, sys.argv[0], lambda: agent.stop(None, "start", None))
    program.flush_output()
    agent.report_exit(status)
    sys.exit(status)


class ImportCallback:
    """Finder of modules that calls `callback` once the program has imported `module`."""

    def __init__(self, module: str, callback: Callable[[], object]) -> None:
        self._module, self._then = module, callback

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """Return the spec of the awaited module, changed so that the callback is called after the import. None for all
        other modules. Python calls this method when it looks for a module.
        """
        if name != self._module:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                self._then()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def follow_rank_tasks(socket_path: str, library: str, rank_functions: tuple[Any, ...]) -> None:
    """Start an agent in an MPI rank as soon as the rank has imported asyncio; debuggers connect to `socket_path`.

    `library`: the path of the C part of births.py. `rank_functions`: from the rank's own agent (debug/agent.py), its
    functions `aside`, `drive` and `answer_about_frame`, and the path of its file.
    """

    call_at_import("asyncio", lambda: load_agent_module().RankAgent(socket_path, library, rank_functions))


def answer_debugger(socket_path: str) -> None:
    """Start an agent in this running program, for the debugger that listens at `socket_path`.

    If the program has not imported asyncio, or is just importing it, the debugger gets the reason instead. The folder
    of the socket is removed in any case.
    """
    try:
        if "asyncio" not in sys.modules:  # nothing is imported into a program that has no use for it
            other = next((name for name in ("trio", "gevent", "curio") if name in sys.modules), "")
            reason = f"runs {other}, whose tasks are not followed: only asyncio's are" if other else ""
            refuse_debugger(socket_path, reason or "has not imported asyncio: it has no tasks")
            return
        sys.modules.pop("_weft_inside.attach", None)
        load_agent_module("attach").start_connected_agent(socket_path)
    except (ImportError, AttributeError) as error:  # it is importing asyncio right now
        refuse_debugger(socket_path, f"cannot be inspected now: {error}", RETRY_STATUS)
    finally:
        with suppress(OSError):  # nothing is left for the debugger to do: it may be killed
            for name in os.listdir(Path(socket_path).parent):
                Path(socket_path).with_name(name).unlink()
            Path(socket_path).parent.rmdir()


def refuse_debugger(socket_path: str, reason: str, code: str = "null") -> None:
    """Send the debugger at `socket_path` the reason why no agent starts. `code`: the exit status in the message, as
    JSON.

    The message is written without the module json, which a program without asyncio may not have imported.
    """
    plain = "".join(letter if letter.isprintable() and letter not in '"\\' else "'" for letter in reason)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(socket_path)
        line.sendall(
            f'{{"stop": {{"why": "ended", "code": {code}, "task": null, "at": null, "text": "{plain}"}}}}\n'.encode()
        )


def record_task_steps(library: str) -> None:
    """Record, in a rank of `weft run --tasks`, which asyncio task makes each MPI call. In a version of asyncio that
    Weft does not know, nothing is recorded.

    `library`: the path of the C part that records.
    """

    def begin() -> None:
        # An asyncio that we do not know: no task is.
        with suppress(OSError, AttributeError, TypeError, ValueError, RuntimeError):
            load_agent_module("step_recording").record_steps(library)

    call_at_import("asyncio", begin)


def call_at_import(module: str, callback: Callable[[], object]) -> None:
    """Call `callback` as soon as the program has imported `module`. If it has imported it already, call it at once."""
    if module in sys.modules:
        callback()
    else:
        sys.meta_path.insert(0, ImportCallback(module, callback))  # type: ignore[arg-type]


if __name__ == "__main__":
    run_with_agent()
