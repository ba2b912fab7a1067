"""List the environment variables that Weft reads: those that users may set, and those that Weft sets for its processes.

`python -m weft.base.environment > docs/environment.md` writes the page about the first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple


class Variable(NamedTuple):
    """A variable that a user may set."""

    name: str
    meaning: str
    """One sentence, for the page: Markdown."""
    usual: str
    """What holds where the variable is not set: Markdown."""


USERS: Final = (
    Variable(
        "WEFT_ADDRESS",
        "Names or addresses, separated by commas, at which other hosts reach the one that runs "
        "[`weft run --local`](clusters.md#hosts-without-a-common-directory).",
        "all addresses of the host",
    ),
    Variable(
        "WEFT_CACHE",
        "The folder in which Weft keeps what it builds and computes, in `weft` below it; it must be yours, and nobody "
        "else may be able to write it ([why](security.md#the-cache)).",
        "`XDG_CACHE_HOME`, else `~/.cache`",
    ),
    Variable(
        "WEFT_CC",
        "The C compiler with which [`weft cc`](commands/cc.md) builds its own object, once.",
        "`gcc`, `cc` or `clang`",
    ),
    Variable(
        "WEFT_CC_SHOW",
        "With any value, [`weft cc`](commands/cc.md) prints the command lines that it runs.",
        "they are not printed",
    ),
    Variable(
        "WEFT_DAP_SECRET",
        "The secret that an editor sends to [`weft dap --port`](commands/dap.md).",
        "a random one, which is printed",
    ),
    Variable(
        "WEFT_WATCHDOG",
        "The seconds without progress in MPI after which the [watchdog](watchdog.md) prints where all ranks are.",
        "nothing is watched",
    ),
    Variable(
        "WEFT_WATCHDOG_ACTION",
        "What the [watchdog](watchdog.md) does then: `tell`, or `abort`, which also ends the program.",
        "`tell`",
    ),
    Variable(
        "WEFT_WATCHDOG_FILE",
        "The file into which the [watchdog](watchdog.md) writes what it also writes to standard error.",
        "a file of its own in the working folder",
    ),
    Variable(
        "WEFT_WITHOUT",
        "Parts of the recorder that `weft run` leaves out, separated by commas: "
        "[which there are](commands/run.md#without-a-part-of-the-recorder).",
        "all parts record",
    ),
)

OTHERS: Final = (
    Variable(
        "CC",
        "The C compiler for what Weft builds, checks with `weft check` and builds for `weft tasks`.",
        "`cc` or `gcc`",
    ),
    Variable("CXX", "The C++ compiler of `weft check` and `weft tasks --as-openmp`.", "`g++`"),
    Variable("FC", "The Fortran compiler of `weft check`.", "`gfortran`"),
    Variable("CFLAGS", "Options of the C compiler for `weft tasks --as-openmp`.", "`-O0`"),
    Variable("CXXFLAGS", "Options of the C++ compiler for `weft tasks --as-openmp`.", "`-O0`"),
    Variable(
        "CILK_ROOT", "The folder of MIT Cilk-5 for [`weft tasks prog.cilk`](commands/tasks.md).", "that of `cilkc`"
    ),
    Variable("CILKFLAGS", "Options of Cilk-5's compilers for [`weft tasks prog.cilk`](commands/tasks.md).", "none"),
    Variable("PVM_ROOT", "The folder of [PVM](pvm.md).", "`/usr/lib/pvm3`"),
    Variable("NUMBA_NUM_THREADS", "The threads that [`weft check prog.py`](check-numba.md) lets Numba have.", "4"),
    Variable("XDG_CACHE_HOME", "The folder of caches, where `WEFT_CACHE` is not set.", "`~/.cache`"),
    Variable(
        "XDG_STATE_HOME",
        "The folder for the key that [signs your runs](security.md#whose-run-it-is) and the history of prompts, in "
        "`weft` below it.",
        "`~/.local/state`",
    ),
    Variable("COLUMNS", "How wide reports are at a terminal.", "the terminal's own width"),
    Variable(
        "NO_COLOR", "With any value, reports have no colours; `TERM=dumb` means the same.", "colours at a terminal"
    ),
)
"""Those that are not Weft's own."""

PREFIX: Final = "WEFT_INTERNAL_"

INTERNAL: Final = {
    "RUN": "the run's directory, for the recorder",
    "LEVEL": "the level of the record",
    "BUFFERS": "whether to check the whole of each pending buffer",
    "HASH": "that messages are hashed",
    "KEEP": "for how many nanoseconds calls are kept",
    "PATIENT": "whether the program waits for a slow disk",
    "REPLAY": "the folder with the ranks' parts of a replay",
    "AGENT": "the folder in which ranks of a replay meet a debugger",
    "SPAWN": "which call spawned this world of processes",
    "PVM_RANK": "the rank of a task of PVM",
    "PVM_JOIN": "whether a run uses the user's own virtual machine of PVM",
    "PVM_PRELOAD": "what tasks of PVM preload",
    "PVM_GROUPS": "that a program uses PVM's groups",
    "VALUES": "the folder for values of probes",
    "VALUES_LIBRARY": "the library that keeps them",
    "VALUES_OWNER": "the process whose values are kept",
    "WATCHES": "the file with the values that `weft run --watch` keeps",
    "PYTHONPATH": "the user's PYTHONPATH, while Weft has its own",
    "PRELOAD": "the user's LD_PRELOAD, while gdb runs without",
    "TASKS": "the run for which tasks are recorded",
    "TASKS_LIBRARY": "the library that does so for Python",
    "TASKS_TURNS": "whether the order of tasks is recorded or replayed, and its file",
    "CHECK_FINDINGS": "the file for findings of a checked program",
    "CHECK_GRID": "the grid of processors, or the threads",
    "CHECK_TRACE": "the folder of libraries for values of a checked program",
    "CHECK_TURNS": "how many processors take turns",
    "CHECK_ACCESSES": "which accesses are kept with the values",
    "SECRET": "the secret by which the hosts of a run know each other",
    "TRIAL": "which trial of messages between hosts a process belongs to",
    "CACHE_TOLD": "the cache of which Weft has already said that it is not used",
}
"""Those that Weft sets for its own processes, after the prefix: nobody else is to set or read them."""


def render_environment_page() -> Iterator[str]:
    """Yield the lines of docs/environment.md."""
    yield from ("# Environment variables", "", "What you may set for Weft, for one command or for all.", "")
    yield from _table(USERS)
    yield from ("", "## Variables that others know, too", "")
    yield from _table(OTHERS)
    yield from (
        "",
        f"Names that begin with `{PREFIX}` are Weft's own: its processes tell each other by them what to do. "
        "Do not set them.",
        "",
        "<!-- python -m weft.base.environment > docs/environment.md -->",
    )


def _table(variables: Iterable[Variable]) -> Iterator[str]:
    yield from ("| variable | what it does | where it is not set |", "|---|---|---|")
    for one in variables:
        yield f"| `{one.name}` | {one.meaning} | {one.usual} |"


if __name__ == "__main__":
    print(*render_environment_page(), sep="\n")
