"""Ways for a rank to end: a program each, and what `weft run` has to say of it first. Tests and tests/evidence/endings.md use them."""

# ruff: noqa: E501 - the programs stand as they are
from __future__ import annotations

from dataclasses import dataclass

PYTHON_HEAD = """\
import os, sys, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
time.sleep(0.3 * (rank == 1))  # the others are where they are to be
"""

C_HEAD = """\
#include <mpi.h>
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int rank = 0, size = 1, one = 1;
    volatile int zero = 0;
    (void)one, (void)zero;
"""
INIT = """\
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    usleep(rank == 1 ? 300000 : 0); // the others are where they are to be
"""


@dataclass(frozen=True)
class Way:
    """A program that ends in one way. `{end}` in `says` is the line marked END, `{wait}` the one marked WAIT.

    `signal`: what is sent to the whole job once all ranks have come to it. `kinds`: the kinds of the findings of
    severity error, all of them. `statuses`: what `weft run` may exit with; None: what the launcher itself gives.
    """

    name: str
    title: str
    source: str
    says: str
    kinds: frozenset[str]
    statuses: frozenset[int] | None
    language: str = "python"
    ranks: int = 3
    signal: int = 0
    options: tuple[str, ...] = ()
    """Between `python` and the program."""

    @property
    def text(self) -> str:
        """The whole program."""
        if self.language == "python":
            return PYTHON_HEAD + self.source
        return self.source if "int main" in self.source or self.language == "fortran" else C_HEAD + self.source + "}\n"

    def line(self, mark: str) -> int:
        """The number of the line that carries a mark, 0 where there is none."""
        return next((n for n, line in enumerate(self.text.splitlines(), 1) if line.rstrip().endswith(mark)), 0)

    @property
    def file(self) -> str:
        """The name of its source."""
        return self.name + {"python": ".py", "c": ".c", "fortran": ".f90"}[self.language]

    def said(self) -> str:
        """The regular expression that the first finding or first line matches."""
        places = {mark.lower(): f"{self.file}:{self.line(mark)}" for mark in ("END", "WAIT", "CALL", "ALSO")}
        said = self.says
        for mark, place in places.items():
            said = said.replace("{" + mark + "}", place.replace(".", r"\."))
        return said


def ways() -> list[Way]:
    """All of them."""
    return [*PYTHON, *C, *FORTRAN]


DEADLOCK = frozenset((3,))

PYTHON = [
    Way(
        "exception_one", "a Python exception on one rank",
        "def work():\n    {}['missing']  # END\nif rank == 1:\n    work()  # CALL\ncomm.barrier()  # WAIT\n",
        r"rank 1 ended by KeyError: 'missing' at {end} in work \(called at {call}\); "
        r"ranks 0 and 2 wait for it in barrier at {wait}",
        frozenset({"uncaught-exception"}), DEADLOCK,
    ),
    Way(
        "exception_every", "a Python exception on every rank",
        "comm.barrier()\nraise ValueError('no input')  # END\n",
        r"ranks 0-2 ended by ValueError: no input at {end}",
        frozenset({"uncaught-exception"}), None,
    ),
    Way(
        "exception_last", "a Python exception on one rank, the others through",
        "comm.barrier()\nif rank == 1:\n    raise RuntimeError('late')  # END\n",
        r"rank 1 ended by RuntimeError: late at {end}",
        frozenset({"uncaught-exception"}), None,
    ),
    Way(
        "exception_hook", "an exception, and a sys.excepthook that aborts",
        "def hook(kind, value, trace):\n    sys.__excepthook__(kind, value, trace)\n    comm.Abort(7)\n"
        "sys.excepthook = hook\nif rank == 1:\n    raise OSError('no disk')  # END\ncomm.recv(source=1)  # WAIT\n",
        r"rank 1 ended by OSError: no disk at {end}",
        frozenset({"uncaught-exception"}), None,
    ),
    Way(
        "exception_handled", "a handler that calls MPI_Abort",
        "def work():\n    return 1 / (rank - 1)  # END\ntry:\n    work()  # CALL\nexcept Exception:\n    comm.Abort(6)\n"
        "comm.barrier()  # WAIT\n",
        r"rank 1 ended by ZeroDivisionError: (float )?division by zero at {end} in work \(called at {call}\)",
        frozenset({"uncaught-exception"}), None,
    ),
    Way(
        "exception_mpi4py", "an exception under python -m mpi4py",
        "if rank == 1:\n    raise KeyError('gone')  # END\ncomm.barrier()  # WAIT\n",
        r"rank 1 ended by KeyError: 'gone' at {end}",
        frozenset({"uncaught-exception"}), None, options=("-m", "mpi4py"),
    ),
    Way(
        "exception_mpi", "an error that mpi4py raises",
        "if rank == 1:\n    comm.send(None, dest=99)  # END\ncomm.barrier()  # WAIT\n",
        r"rank 1 ended by mpi4py\.MPI\.Exception: (Invalid rank has value 99.*|MPI_ERR_RANK: invalid rank) at {end}",
        frozenset({"uncaught-exception"}), DEADLOCK,
    ),
    Way(
        "exception_thread", "an exception in a thread",
        "import threading\ndef work():\n    [][3]  # END\nif rank == 1:\n"
        "    t = threading.Thread(target=work, name='writer')\n    t.start(); t.join(); os._exit(0)  # ALSO\n"
        "comm.barrier()  # WAIT\n",
        r"thread writer of rank 1 ended by IndexError: list index out of range at {end} in work",
        frozenset({"uncaught-exception", "early-exit"}), None,
    ),
    Way(
        "exception_task", "an exception in an asyncio task",
        "import asyncio\nasync def work():\n    raise LookupError('task')  # END\nasync def main():\n"
        "    task = asyncio.create_task(work())\n    await asyncio.sleep(0)\n    await task\n"
        "if rank == 1:\n    asyncio.run(main())  # CALL\ncomm.barrier()  # WAIT\n",
        r"rank 1 ended by LookupError: task at {end} in work",
        frozenset({"uncaught-exception"}), DEADLOCK,
    ),
    Way(
        "sys_exit", "sys.exit on one rank",
        "if rank == 1:\n    sys.exit(3)  # END\ncomm.barrier()  # WAIT\n",
        r"rank 1 ended by sys\.exit\(3\) at {end}; ranks 0 and 2 wait for it in barrier at {wait}",
        frozenset({"early-exit"}), DEADLOCK,
    ),
    Way(
        "overtaken", "sys.exit on ranks that another one takes along",
        "if rank == 1:\n    time.sleep(2)\n    os.kill(os.getpid(), 9)\n"
        "class Held:\n    def __del__(self, sleep=time.sleep):\n        sleep(20)\n"
        "held = Held()  # lets go when the interpreter ends, before mpi4py calls MPI_Finalize\nsys.exit(0)  # END\n",
        r"ranks 0 and 2 ended by sys\.exit\(0\) at {end}",
        frozenset(), None,
    ),
    Way(
        "os_exit", "os._exit on one rank",
        "if rank == 1:\n    os._exit(4)  # END\ncomm.barrier()  # WAIT\n",
        r"rank 1 ended by _exit\(4\) at {end}",
        frozenset({"early-exit"}), None,
    ),
    Way(
        "abort_python", "MPI_Abort in Python",
        "if rank == 1:\n    comm.Abort(5)  # END\ncomm.barrier()  # WAIT\n",
        r"rank 1 called MPI_Abort\(errorcode=5\) at {end}",
        frozenset({"abort"}), None,
    ),
    Way(
        "segv_python", "a crash inside a Python rank",
        "import ctypes\ndef peek():\n    ctypes.string_at(8)  # END\nif rank == 1:\n    peek()  # CALL\ncomm.barrier()  # WAIT\n",
        r"rank 1 crashed by SIGSEGV at address 0x8 .*at {end} in peek",
        frozenset({"crash"}), None,
    ),
    Way(
        "interrupt_python", "Ctrl-C, one rank in a loop",
        "import itertools\ndef spin():\n    for _ in itertools.count(): pass  # END\n"
        "if rank == 1:\n    spin()  # CALL\ncomm.recv(source=1)  # WAIT\n",
        r"interrupted by SIGINT",
        frozenset(), frozenset((130,)), signal=2,
    ),
    Way(
        "terminate_python", "SIGTERM, as `timeout` sends it",
        "def spin():\n    while True: pass  # END\nif rank == 1:\n    spin()  # CALL\ncomm.recv(source=1)  # WAIT\n",
        r"ended by SIGTERM",
        frozenset(), frozenset((143,)), signal=15,
    ),
    Way(
        "hangup_python", "a closed terminal",
        "if rank == 1:\n    time.sleep(60)  # END\ncomm.recv(source=1)  # WAIT\n",
        r"ended by SIGHUP",
        frozenset(), frozenset((129,)), signal=1,
    ),
]  # fmt: skip

C = [
    Way(
        "abort_c", "MPI_Abort in C", INIT +
        "    if (rank == 1) MPI_Abort(MPI_COMM_WORLD, 5), pause(); // END\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n",
        r"rank 1 called MPI_Abort\(errorcode=5\) at {end}", frozenset({"abort"}), None, "c",
    ),
    Way(
        "error_c", "an MPI error that ends the job, another rank through", INIT +
        "    if (rank == 1) MPI_Recv(NULL, 4, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // END\n"
        "    if (rank == 0) { int four[4] = {0}; MPI_Send(four, 4, MPI_INT, 1, 0, MPI_COMM_WORLD); }\n    MPI_Finalize();\n",
        r"rank 1 was ended by MPI inside recv\(source=0, tag=0\) at {end}: (Null|MPI_ERR_BUFFER: invalid) buffer pointer",
        frozenset({"abort"}), None, "c", ranks=2,
    ),
    Way(
        "segv_c", "SIGSEGV in C", INIT +
        "    if (rank == 1) *(volatile int *)16 = one; // END\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n",
        r"rank 1 crashed by SIGSEGV at address 0x10 .*at {end}", frozenset({"crash"}), None, "c",
    ),
    Way(
        "fpe_c", "SIGFPE in C", INIT +
        "    if (rank == 1) one /= zero; // END\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n    return one;\n",
        r"rank 1 crashed by SIGFPE .*at {end}", frozenset({"crash"}), None, "c",
    ),
    Way(
        "bus_c", "SIGBUS in C", INIT +
        "    if (rank == 1) {\n        FILE *f = tmpfile();\n"
        "        char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(f), 0);\n        one = *(volatile char *)p; // END\n    }\n"
        "    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n    return one;\n",
        r"rank 1 crashed by SIGBUS .*at {end}", frozenset({"crash"}), None, "c",
    ),
    Way(
        "abort_libc", "abort() in C", INIT +
        "    if (rank == 1) abort(); // END\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n",
        r"rank 1 crashed by SIGABRT: it called abort\(\) at {end}", frozenset({"crash"}), None, "c",
    ),
    Way(
        "assert_c", "an assertion in C", INIT +
        "    assert(rank != 1); // END\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n",
        r"rank 1 crashed by SIGABRT: assertion `rank != 1' failed at {end}", frozenset({"crash"}), None, "c",
    ),
    Way(
        "exit_c", "exit() in C before MPI_Finalize", INIT +
        "    if (rank == 1) exit(3); // END\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n",
        r"rank 1 ended by exit\(3\) at {end}", frozenset({"early-exit"}), None, "c",
    ),
    Way(
        "return_c", "a return from main before MPI_Finalize", INIT +
        "    if (rank == 1) return 0; // END\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n",
        r"rank 1 returned 0 from main, without MPI_Finalize", frozenset({"early-exit"}), None, "c",
    ),
    Way(
        "killed_c", "a rank that is killed from outside", INIT +
        "    if (rank == 1) kill(getpid(), SIGKILL);\n    MPI_Barrier(MPI_COMM_WORLD); // WAIT\n    MPI_Finalize();\n",
        r"rank 1 ended outside MPI", frozenset(), None, "c",
    ),
    Way(
        "before_c", "an MPI call before MPI_Init",
        "    MPI_Comm_rank(MPI_COMM_WORLD, &rank); // END\n" + INIT + "    MPI_Finalize();\n",
        r"rank 0 calls MPI_Comm_rank at {end} before MPI was initialised",
        frozenset({"invalid-argument"}), None, "c", ranks=2,
    ),
    Way(
        "after_c", "an MPI call after MPI_Finalize", INIT + "    MPI_Finalize();\n    MPI_Barrier(MPI_COMM_WORLD); // END\n",
        r"MPI_Barrier at {end} after MPI_Finalize", frozenset({"invalid-argument"}), None, "c", ranks=2,
    ),
    Way(
        "interrupt_c", "Ctrl-C, a C rank in a loop", INIT +
        "    if (rank == 1) while (!zero) one++; // END\n"
        "    MPI_Recv(&one, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); // WAIT\n    MPI_Finalize();\n",
        r"interrupted by SIGINT", frozenset(), frozenset((130,)), "c", signal=2,
    ),
]  # fmt: skip

FORTRAN = [
    Way(
        "stop_f", "STOP in Fortran before MPI_Finalize",
        "program p\n  use mpi\n  integer :: e, r\n  call MPI_Init(e)\n  call MPI_Comm_rank(MPI_COMM_WORLD, r, e)\n"
        "  if (r == 1) stop 3 ! END\n  call MPI_Barrier(MPI_COMM_WORLD, e) ! WAIT\n  call MPI_Finalize(e)\nend program\n",
        r"rank 1 ended by STOP 3 at {end}, without MPI_Finalize",
        frozenset({"early-exit"}), None, "fortran",
    ),
]  # fmt: skip
