"""What a `weft cc` of another version built is not watched, and the run says so."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from access_programs import built

from tests_support import WEFT, Installed, execute

SOURCE = """#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
static struct {{ uint32_t version; const void *weft, *others[8]; }} client = {{{version}, {weft}}};
__attribute__((constructor)) static void announce(void) {{
    void (*join)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "weft_access_join");
    if (join) join(&client);
}}
int main(int argc, char **argv) {{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}}
"""


def said(mpi: Installed, folder: Path, command: list[Path | str]) -> str:
    """What `weft run` says of a program on two ranks."""
    done = execute(
        [*WEFT, "run", "--out", folder / "run", "--", *mpi.mpiexec, "-n", "2", *command],
        cwd=folder, env=mpi.environment, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("version", "weft", "words"), [(2, "0", "an older Weft"), (99, '"9.9"', "9.9"), (99, "0", "another Weft")]
)
def test_a_program_that_another_weft_built_is_named_with_the_remedy(
    mpich: Installed, tmp_path: Path, version: int, weft: str, words: str
) -> None:
    (tmp_path / "prog.c").write_text(SOURCE.format(version=version, weft=weft))
    line = [mpich.mpicc, "-D_GNU_SOURCE", "-o", tmp_path / "prog", tmp_path / "prog.c", "-ldl"]
    assert execute(line, env=mpich.environment, timeout=120).returncode == 0
    told = said(mpich, tmp_path, [tmp_path / "prog"])
    assert f"prog, because it was built with `weft cc` of {words}" in told
    assert "build it again" in told
    assert told.count("not recorded:") == 1  # once for both ranks
    report = execute([*WEFT, "report", tmp_path / "run"]).stdout
    assert f"prog, because it was built with `weft cc` of {words}" in report


@pytest.mark.matrix
def test_one_that_this_weft_built_is_not(mpich: Installed, tmp_path: Path) -> None:
    (tmp_path / "prog.c").write_text(SOURCE.replace("join(&client)", "(void)0").format(version=2, weft="0"))
    program = built(mpich, tmp_path, tmp_path / "prog.c", "-D_GNU_SOURCE")
    assert "weft cc" not in said(mpich, tmp_path, [program])
