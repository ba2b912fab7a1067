"""`python FOLDER SOCKET LIBRARY KIND TARGET ARGS`: run a program as its own main module, with an agent beside it.

KIND is `file`, `-m` or `-c` (commandline.py).

In a rank of MPI that is replayed for a debugger, weft/debug/agent.py calls `attend` instead; in one of `weft run
--tasks`, start/sitecustomize.py calls `record`.
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


AGAIN = "75"
"""What is told of a program that is just importing asyncio (EX_TEMPFAIL)."""


def load(part: str = "agent") -> types.ModuleType:
    """A module of this folder, imported as a package of its own, whatever else is called `weft` here."""
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        "_weft_inside", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["_weft_inside"] = package
    spec.loader.exec_module(package)
    return importlib.import_module("_weft_inside." + part)


def main() -> None:
    """Start the program, stop before its first line, and say how it ended."""
    line = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(line.fileno(), False)
    library, kind, sys.argv = sys.argv[2], sys.argv[3], sys.argv[4:]
    agent = load().Agent(line, library)
    program = importlib.import_module("_weft_inside.program")
    status = program.run(kind, sys.argv[0], lambda: agent.stop(None, "start", None))
    program.flush()
    agent.ended(status)
    sys.exit(status)


class AtImport:
    """Calls back when the program has imported a module: one that never does pays nothing."""

    def __init__(self, module: str, then: Callable[[], object]) -> None:
        self._module, self._then = module, then

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """What Python asks before each import."""
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


def attend(path: str, library: str, hands: tuple[Any, ...]) -> None:
    """Follow the tasks of this process, from when it has asyncio; debuggers come to the socket at a path.

    `hands`: what the rank's own agent does for this one (debug/agent.py: aside, drive, look), and its file.
    """

    at_import("asyncio", lambda: load().RankAgent(path, library, hands))


def visit(path: str) -> None:
    """Answer the debugger that listens at a path, in a program that was not started for one (attached.py)."""
    try:
        if "asyncio" not in sys.modules:  # nothing is imported into a program that has no use for it
            decline(path, "has not imported asyncio: it has no tasks")
            return
        sys.modules.pop("_weft_inside.attach", None)
        load("attach").come(path)
    except (ImportError, AttributeError) as error:  # it is importing asyncio right now
        decline(path, f"cannot be looked into now: {error}", AGAIN)
    finally:
        with suppress(OSError):  # nothing is left for the debugger to do: it may be killed
            for name in os.listdir(Path(path).parent):
                Path(path).with_name(name).unlink()
            Path(path).parent.rmdir()


def decline(path: str, reason: str, code: str = "null") -> None:
    """Tell the debugger why no agent comes. Without json, which a program without asyncio may not have imported."""
    plain = "".join(letter if letter.isprintable() and letter not in '"\\' else "'" for letter in reason)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.connect(path)
        line.sendall(
            f'{{"stop": {{"why": "ended", "code": {code}, "task": null, "at": null, "text": "{plain}"}}}}\n'.encode()
        )


def record(library: str) -> None:
    """Write down which task makes each call of MPI, in a rank of `weft run --tasks`."""

    def begin() -> None:
        # An asyncio that we do not know: no task is.
        with suppress(OSError, AttributeError, TypeError, ValueError, RuntimeError):
            load("steps").record(library)

    at_import("asyncio", begin)


def at_import(module: str, begin: Callable[[], object]) -> None:
    """Begin when the program has a module."""
    if module in sys.modules:
        begin()
    else:
        sys.meta_path.insert(0, AtImport(module, begin))  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
