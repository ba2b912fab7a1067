"""Launcher lines: taken apart, and given the recorder's variables for the ranks only."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import UsageError
from weft.launch import launcher_line
from weft.launch.options import Family

OURS = {"LD_PRELOAD": "/shim.so", "WEFT_INTERNAL_RUN": "/run", "WEFT_INTERNAL_LEVEL": "trace"}


@pytest.fixture(autouse=True)
def launchers_without_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell a launcher's family by the name alone, and let every launcher exist."""
    families = {"hydra": Family.HYDRA, "openmpi": Family.OPENMPI, "srun": Family.SRUN}
    monkeypatch.setattr(
        launcher_line,
        "find_launcher_family",
        lambda path: next((f for w, f in families.items() if w in path), Family.OTHER),
    )
    real = launcher_line.shutil.which
    monkeypatch.setattr(
        launcher_line.shutil, "which", lambda word, **_: word if launcher_line.is_launcher(word) else real(word)
    )


def programs(command: str) -> list[str]:
    return [" ".join(program) for program in launcher_line.parse_launcher_line(command.split()).programs]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mpiexec.hydra -n 4 ./prog -n 3", ["./prog -n 3"]),
        ("mpiexec.hydra -n 2 -genv A 1 -wdir /tmp ./prog : -n 1 -env B 2 ./other x", ["./prog", "./other x"]),
        ("mpiexec.hydra -l -ppn 2 -hosts a,b python x.py -m y", ["python x.py -m y"]),
        ("mpirun.openmpi --oversubscribe -np 4 --mca btl self,tcp ./prog", ["./prog"]),
        ("mpirun.openmpi --map-by ppr:1:node --bind-to=core -x A=1 ./prog : -np 1 ./b", ["./prog", "./b"]),
        ("mpirun.openmpi --unknown-to-weft value -n 1 true x", ["true x"]),
        ("srun -n4 --mpi=pmix -p debug ./prog a", ["./prog a"]),
        ("srun --ntasks 4 -l ./prog", ["./prog"]),
        ("mpiexec.hydra -n 1 -- ./prog -x", ["./prog -x"]),
        ("./prog : x", ["./prog : x"]),
    ],
)
def test_the_programs_of_a_line_are_found_behind_the_options(command: str, expected: list[str]) -> None:
    assert programs(command) == expected


@pytest.mark.parametrize(
    "command",
    ["mpiexec.hydra -n 2 ./a : -n 1 ./b x", "mpirun.openmpi --mca a b -n 1 ./a", "srun -n4 ./a", "./a b : c"],
)
def test_a_line_put_together_again_is_the_same_line(command: str) -> None:
    assert launcher_line.parse_launcher_line(command.split()).argv() == command.split()


def test_a_line_without_a_program_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="names no program to start"):
        launcher_line.parse_launcher_line(["mpiexec.hydra", "-n", "4"])


def changed(command: str, environment: dict[str, str] | None = None) -> tuple[str, dict[str, str]]:
    argv, env = launcher_line.add_rank_variables(
        launcher_line.parse_launcher_line(command.split()), OURS, environment or {}
    )
    return " ".join(argv), env


def test_hydra_gets_the_variables_once_for_all_contexts_and_its_own_environment_stays() -> None:
    argv, env = changed("mpiexec.hydra -n 1 ./a : -n 1 ./b", {"HOME": "/h"})
    assert argv == (
        "mpiexec.hydra -genv LD_PRELOAD /shim.so -genv WEFT_INTERNAL_RUN /run -genv WEFT_INTERNAL_LEVEL trace "
        "-n 1 ./a : -n 1 ./b"
    )
    assert env == {"HOME": "/h"}


def test_openmpi_gets_the_variables_in_every_context() -> None:
    argv, env = changed("mpirun.openmpi -n 1 ./a : -n 1 ./b")
    ours = "-x LD_PRELOAD=/shim.so -x WEFT_INTERNAL_RUN=/run -x WEFT_INTERNAL_LEVEL=trace"
    assert argv == f"mpirun.openmpi {ours} -n 1 ./a : {ours} -n 1 ./b"
    assert env == {}


def test_srun_exports_are_merged_with_the_users_own() -> None:
    assert changed("srun -n2 ./a")[0].split()[1] == (
        "--export=ALL,LD_PRELOAD=/shim.so,WEFT_INTERNAL_RUN=/run,WEFT_INTERNAL_LEVEL=trace"
    )
    assert changed("srun --export=NONE,A=1 -n2 ./a")[0].split()[1] == (
        "--export=A=1,LD_PRELOAD=/shim.so,WEFT_INTERNAL_RUN=/run,WEFT_INTERNAL_LEVEL=trace"
    )


@pytest.mark.parametrize(
    "command",
    [
        "mpiexec.hydra -genv LD_PRELOAD /own.so -n 1 ./a",
        "mpiexec.hydra -n 1 -env LD_PRELOAD /own.so ./a",
        "mpirun.openmpi -x LD_PRELOAD=/own.so -n 1 ./a",
        "srun --export=ALL,LD_PRELOAD=/own.so -n1 ./a",
    ],
)
def test_a_users_own_preload_on_the_line_is_kept_behind_ours(command: str) -> None:
    assert "/shim.so:/own.so" in changed(command)[0]


def test_a_users_own_preload_in_the_environment_is_kept_behind_ours() -> None:
    argv, env = changed("mpirun.openmpi -n 1 ./a", {"LD_PRELOAD": "/own.so"})
    assert "-x LD_PRELOAD=/shim.so:/own.so" in argv
    assert env == {"LD_PRELOAD": "/own.so"}  # the launcher keeps what it had


def test_open_mpis_list_of_variables_is_used_where_the_user_used_it() -> None:
    argv, _ = changed("mpirun.openmpi --mca mca_base_env_list A=1 -n 1 ./a")
    assert "--mca mca_base_env_list A=1;LD_PRELOAD=/shim.so;WEFT_INTERNAL_RUN=/run;WEFT_INTERNAL_LEVEL=trace" in argv
    assert " -x " not in argv


def test_a_bare_program_is_itself_the_rank() -> None:
    argv, env = changed("./prog a", {"HOME": "/h"})
    assert argv == "./prog a"
    assert env == {"HOME": "/h", **OURS}


def test_launchers_are_recognised_by_what_they_say_of_themselves() -> None:
    assert launcher_line.family_from_version("HYDRA build details:\n Version: 4.0.2") is Family.HYDRA
    assert launcher_line.family_from_version("mpiexec (OpenRTE) 4.1.4") is Family.OPENMPI
    assert launcher_line.family_from_version("prterun (PRRTE) 3.0.8") is Family.OPENMPI
    assert launcher_line.family_from_version("slurm 23.02.1") is Family.SRUN
    assert launcher_line.family_from_version("cp (GNU coreutils)") is Family.OTHER


@pytest.mark.parametrize("word", ["mpiexec", "/opt/x/bin/mpirun", "mpiexec.hydra", "mpirun.openmpi", "srun", "aprun"])
def test_launchers_are_known_by_name(word: str) -> None:
    assert launcher_line.is_launcher(word)


@pytest.mark.parametrize("word", ["./prog", "python3", "mpiexecutor", str(Path("srun-wrapper"))])
def test_programs_are_no_launchers(word: str) -> None:
    assert not launcher_line.is_launcher(word)
