"""What of a status the standard gives a meaning is recorded, and nothing of what stood there before."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests_support import WEFT, Installed, execute
from weft.trace import Flag, Status

PROGRAM = r"""
#include <mpi.h>
#include <string.h>
int main(int argc, char **argv) {
    int b[100] = {0}, x = 7, y, flag;
    MPI_File f;
    MPI_Status s[3];
    MPI_Request q[3];
    MPI_Init(&argc, &argv);
    memset(s, 0x77, sizeof s);
    MPI_File_open(MPI_COMM_SELF, "io.dat", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f);
    MPI_File_write_at_all(f, 0, b, 100, MPI_INT, &s[0]);
    MPI_File_read_at(f, 0, b, 50, MPI_INT, &s[1]);
    MPI_File_write_at_all_begin(f, 0, b, 25, MPI_INT);
    MPI_File_write_at_all_end(f, b, &s[0]);
    memset(s, 0x77, sizeof s);
    MPI_File_iwrite_at(f, 0, b, 20, MPI_INT, &q[0]);
    MPI_Wait(&q[0], &s[0]);
    memset(s, 0x77, sizeof s);
    MPI_File_iread_at(f, 0, b, 10, MPI_INT, &q[0]);
    MPI_Irecv(&y, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &q[1]);
    MPI_Isend(&x, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &q[2]);
    MPI_Waitall(3, q, s);
    memset(s, 0x77, sizeof s);
    MPI_Ibarrier(MPI_COMM_SELF, &q[0]);
    MPI_Wait(&q[0], &s[0]);
    memset(s, 0x77, sizeof s);
    MPI_Irecv(&y, 1, MPI_INT, 0, 4, MPI_COMM_SELF, &q[0]);
    MPI_Cancel(&q[0]);
    MPI_Wait(&q[0], &s[0]);
    MPI_Test_cancelled(&s[0], &flag);
    MPI_File_close(&f);
    MPI_Finalize();
    return !flag;
}
"""
COUNTED = {
    "MPI_File_write_at_all": 400, "MPI_File_read_at": 200, "MPI_File_write_at_all_end": 100,
}  # fmt: skip


def counted(count: int) -> Status:
    return Status(source=-1, tag=-1, count=count)


@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
def test_a_status_has_the_fields_that_its_operation_sets(
    mpi: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    installed: Installed = request.getfixturevalue(mpi)
    (tmp_path / "status.c").write_text(PROGRAM)
    execute([installed.mpicc, "-g", "-o", "status", "status.c"], cwd=tmp_path)
    command = [*WEFT, "run", "--out", "run", "--", *installed.mpiexec, "-n", "1", "./status"]
    done = execute(command, cwd=tmp_path, env=installed.environment)
    assert done.returncode == 0, done.stderr
    events = list(weft.open(tmp_path / "run").ranks[0])
    seen = {event.function.name: event.status for event in events if event.function.name in COUNTED}
    assert seen == {name: counted(count) for name, count in COUNTED.items()}
    written, barrier, cancelled = (event for event in events if event.function.name == "MPI_Wait")
    [several] = (event for event in events if event.function.name == "MPI_Waitall")
    assert (written.status, barrier.status) == (counted(80), None)
    assert several.args["array_of_statuses"] == [counted(40), Status(source=0, tag=3, count=4), None]
    assert [event for event in events if event.flags & Flag.CANCELLED] == [cancelled]
