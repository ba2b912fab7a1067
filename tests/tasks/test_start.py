"""A program starts under the debugger as by its own command line, and ends as it would without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests_support import pythons
from weft.errors import UsageError
from weft.tasks import session
from weft.tasks.commandline import PythonCommand, parse_python_command

PROGRAM = """import asyncio, sys

async def leaf(n):
    await asyncio.sleep(0.01)
    return n * 2

async def main():
    result = await asyncio.create_task(leaf(3))
    print(result, sys.argv, sys.path[0], __file__, __name__, __spec__ and __spec__.name, sys.flags.dev_mode)
    if sys.argv[1:] == ["boom"]:
        raise ValueError("boom")

asyncio.run(main())
"""
OLD = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.10*/bin/python3"))
NEW = pythons(12)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the program as a script, a package, an archive, and scripts that pip writes."""
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").touch()
    for name in ("prog.py", "pack/__main__.py"):
        (tmp_path / name).write_text(PROGRAM)
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", PROGRAM)
    (tmp_path / "script").write_text(f"#!{sys.executable}\n{PROGRAM}")
    (tmp_path / "long").write_text(f"#!/bin/sh\n'''exec' {sys.executable} \"$0\" \"$@\"\n' '''\n{PROGRAM}")
    for name in ("script", "long"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def alone(command: list[str]) -> tuple[int, str]:
    """Status and output of a command without Weft."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


WAYS = [["prog.py"], ["-m", "pack"], ["-um", "pack", "boom"], ["-X", "dev", "-W", "error", "prog.py", "boom"], ["pack"],
        ["-O", "archive.pyz", "x"], ["-c", PROGRAM, "boom"], ["-I", "prog.py"]]  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("python", NEW)
@pytest.mark.parametrize("words", WAYS, ids=lambda words: " ".join(words)[:20])
def test_a_program_starts_and_ends_as_its_command_line_does_alone(folder: Path, words: list[str], python: str) -> None:
    with session([python, *words]) as s:
        assert s.first["why"] == "start"
        s.do("break leaf")
        hit = s.do("continue")
        assert (hit["why"], hit["at"]["line"]) == ("breakpoint", 4)
        assert [s.do("next")["at"]["line"] for _ in range(2)] == [5, 8]
        code, output = s.do("continue")["code"], s.output()
    assert (code, output) == alone([python, *words])


@pytest.mark.parametrize("name", ["script", "long"])
def test_a_console_script_is_run_by_the_python_that_it_names(folder: Path, name: str) -> None:
    with session([f"./{name}", "boom"]) as s:
        s.do("break leaf")
        assert s.do("continue")["why"] == "breakpoint"
        code, output = s.do("continue")["code"], s.output()
    assert (code, output) == alone([f"./{name}", "boom"])


def test_the_last_thread_of_a_program_is_part_of_it(tmp_path: Path) -> None:
    program = tmp_path / "late.py"
    program.write_text(
        "import asyncio, threading, time\n\ndef late():\n    time.sleep(0.3)\n    asyncio.run(leaf())\n\n"
        "async def leaf():\n    print('late')\n\nthreading.Thread(target=late).start()\n"
    )
    with session([str(program)]) as s:
        s.do("break leaf")
        assert s.do("continue")["why"] == "breakpoint"
        assert s.do("continue")["code"] == 0
        assert s.output() == "late\n"


@pytest.mark.skipif(not OLD, reason="there is no Python 3.10 here")
def test_a_python_without_what_is_needed_is_refused_with_one_line(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"is Python 3\.10: tasks can be followed from 3\.11 on"):
        session([str(OLD[0]), "prog.py"]).__enter__()


def test_a_python_without_a_lock_is_refused_with_one_line(folder: Path) -> None:
    standing_in = folder / "python3.14t"
    version = "3.14.2 free-threading build (main, Dec  5 2025)"
    standing_in.write_text(f'#!/bin/sh\n[ "$1" = -c ] && echo "{version}" || exit 1\n')
    standing_in.chmod(0o755)
    with pytest.raises(UsageError, match=r"free-threaded build of Python 3\.14\.2, .* standard build, python3\.14$"):
        session([str(standing_in), "prog.py"]).__enter__()


def test_a_command_line_is_read_as_python_reads_it(folder: Path) -> None:
    python = str(shutil.which("python3"))
    assert parse_python_command(["python3", "-uXdev", "-W", "error", "prog.py", "-m"]) == PythonCommand(
        python, ("-u", "-Xdev", "-Werror"), "file", "prog.py", ("-m",))  # fmt: skip
    assert parse_python_command(["python3", "-bm", "pack", "-c"]) == PythonCommand(
        python, ("-b",), "-m", "pack", ("-c",)
    )
    assert parse_python_command(["/bin/sh", "prog.py"]) is None


@pytest.mark.parametrize("words", [[], ["-u"], ["-m"], ["-"], ["nosuch.py"]])
def test_a_command_line_that_runs_nothing_is_refused(folder: Path, words: list[str]) -> None:
    with pytest.raises(UsageError, match=r"program|a name after|no such file"):
        parse_python_command(["python3", *words])


def test_a_signal_that_ends_a_program_is_named(tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text("import os\nos.abort()\n")
    with session([str(program)]) as s:
        stop = s.do("continue")
        assert stop["code"] == -6
        assert s.console.render_answer(stop) == ["the program has ended, killed by SIGABRT"]


@pytest.mark.matrix
@pytest.mark.needs("gcc", "gdb", "OMPT")
def test_a_native_program_without_lines_says_so_and_its_signal_is_named(tmp_path: Path) -> None:
    source, program = tmp_path / "bare.c", tmp_path / "bare"
    source.write_text(
        "#include <stdlib.h>\nint main(void) {\n#pragma omp parallel\n#pragma omp single\n#pragma omp task\n"
        "    abort();\n    return 0;\n}\n"
    )
    subprocess.run(["gcc", "-O0", "-fopenmp", str(source), "-o", str(program)], check=True, timeout=60)
    with session([str(program)]) as s:
        assert "compile with -g" in s.first["text"]
        assert s.do("continue")["why"] == "signal"
        stop = s.do("continue")
        assert s.console.render_answer(stop) == ["the program has ended, killed by SIGABRT"]


def test_tasks_of_a_library_that_is_not_followed_are_said_to_be_there(tmp_path: Path) -> None:
    pytest.importorskip("trio", reason="there is no trio here")
    program = tmp_path / "nursery.py"
    program.write_text("import trio\n\n\nasync def main():\n    await trio.sleep(0)\n\n\ntrio.run(main)\n")
    with session([str(program)]) as s:
        assert s.do("tasks")["unseen"] is None
        s.do("break main")
        assert s.do("continue")["at"]["line"] == 5
        assert s.console.render_answer(s.do("tasks")) == [
            "no tasks: the program runs trio, whose tasks are not followed: only asyncio's are"
        ]
