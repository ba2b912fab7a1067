"""Imported by Python at its start in a rank of `weft run --tasks`: removes itself again, and waits for asyncio.

The folder is the first in PYTHONPATH, which is restored at once; the user's own sitecustomize is imported as always.
"""

import importlib
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - nothing more is imported into each rank


def restore_environment() -> None:
    """Remove this folder from sys.path and PYTHONPATH, and import the user's own sitecustomize, if there is one."""
    sys.path[:] = [entry for entry in sys.path if entry != FOLDER]
    rest = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if rest[0] == FOLDER:
        del rest[0]
    if any(rest):
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    else:
        os.environ.pop("PYTHONPATH", None)
    ours = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)  # Python looks for it when we are through


def record_asyncio_tasks() -> None:
    """Arrange that the steps of asyncio's tasks are recorded from the moment on at which the program imports
    asyncio.
    """
    inside = os.path.dirname(FOLDER)  # noqa: PTH120
    path = inside + "/__main__.py"
    names = {"__name__": "weft_rank", "__file__": path}
    with open(path) as file:  # noqa: PTH123
        exec(compile(file.read(), path, "exec"), names)
    names["record_task_steps"](os.environ.pop("WEFT_INTERNAL_TASKS_LIBRARY", ""))  # type: ignore[operator]


if os.environ.get("WEFT_INTERNAL_TASKS"):
    record_asyncio_tasks()
restore_environment()
