"""What Python imports at its start in a rank of `weft run --tasks`: it leaves no trace, and waits for asyncio.

The folder stands first in PYTHONPATH, which is put back at once; a sitecustomize of the user's own is imported as ever.
"""

import importlib
import os
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - nothing more is imported into each rank


def hand_over() -> None:
    """Be gone from the path and the environment, and let the user's own sitecustomize come."""
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


def await_asyncio() -> None:
    """Follow the steps of asyncio's tasks from when the program imports it."""
    inside = os.path.dirname(FOLDER)  # noqa: PTH120
    path = inside + "/__main__.py"
    names = {"__name__": "weft_rank", "__file__": path}
    with open(path) as file:  # noqa: PTH123
        exec(compile(file.read(), path, "exec"), names)
    names["record"](os.environ.pop("WEFT_INTERNAL_TASKS_LIBRARY", ""))  # type: ignore[operator]


if os.environ.get("WEFT_INTERNAL_TASKS"):
    await_asyncio()
hand_over()
