"""The hooks' fast path: each of its forms computes what the plain program does, and tells what calls of hooks would."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from loops import program

from tests_support import execute
from weft.instrument.assembler import HookEditor, find_source_argument

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="hooks are calls on other machines")

HERE = Path(__file__).parent
CALLS = ("-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0", "-fno-builtin-memset")
ALL = ("nothing", "elsewhere", "some", "all")
SETS = (
    ("-O1", "-fno-omit-frame-pointer"), ("-O2",), ("-O3", "-march=haswell", "-ffp-contract=off"),
    ("-O2", "-g", "-fno-pie", "-no-pie"),
)  # fmt: skip

Weft = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorder that wants what it is told to want."""
    library = tmp_path_factory.mktemp("recorder") / "wants.so"
    shim = str(files("weft") / "recorder")
    line = ["gcc", "-O1", "-mno-red-zone", "-shared", "-fPIC", f"-I{shim}", "-o", library, HERE / "wants.c"]
    done = execute(line)
    assert done.returncode == 0, done.stderr
    return library


def ran(program: Path, recorder: Path, wants: str, *words: str) -> tuple[str, str]:
    """What a program prints, and what the recorder was told."""
    environment = {**os.environ, "LD_PRELOAD": str(recorder), "WANTS": wants, "TELLS": "1"}
    done = execute([program, *words], env=environment)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return done.stdout, done.stderr


def build(folder: Path, weft_command: Weft, source: Path, options: tuple[str, ...]) -> None:
    """The program of a source as `hooked`, and as `calls`, in which each hook is a call."""
    done = weft_command("cc", "gcc", *options, "-o", "hooked", str(source))
    assert (done.returncode, done.stderr) == (0, "")
    assert execute(["gcc", *options, *CALLS, "-c", "-o", "calls.o", source], cwd=folder).returncode == 0
    assert weft_command("cc", "gcc", *options, "-o", "calls", "calls.o").returncode == 0


def avx(options: tuple[str, ...]) -> None:
    if "-march=haswell" in options and " avx2 " not in Path("/proc/cpuinfo").read_text():
        pytest.skip("no AVX2 here")


@pytest.mark.matrix
@pytest.mark.parametrize("options", SETS, ids=lambda words: words[0] + words[-1])
@pytest.mark.parametrize("seed", [3, 11, 29])
def test_a_program_computes_the_same_whatever_is_wanted(
    tmp_path: Path, weft_command: Weft, recorder: Path, seed: int, options: tuple[str, ...]
) -> None:
    avx(options)
    (tmp_path / "p.c").write_text(program(seed))
    assert execute(["gcc", *options, "-o", "plain", "p.c", "-lm"], cwd=tmp_path).returncode == 0
    done = weft_command("cc", "gcc", *options, "-o", "hooked", "p.c", "-lm")
    assert (done.returncode, done.stderr) == (0, "")
    plain = execute([tmp_path / "plain"]).stdout
    told = {wants: ran(tmp_path / "hooked", recorder, wants) for wants in ALL}
    assert {wants: printed for wants, (printed, _) in told.items()} == dict.fromkeys(ALL, plain)
    assert int(told["all"][1].split()[0]) > 1000


@pytest.mark.cases(1)
@pytest.mark.parametrize("options", SETS, ids=lambda words: words[0] + words[-1])
def test_each_access_of_what_is_wanted_is_told_as_if_hooks_were_calls(
    tmp_path: Path, weft_command: Weft, recorder: Path, options: tuple[str, ...]
) -> None:
    avx(options)
    build(tmp_path, weft_command, HERE / "walks.c", options)
    for array in "012345":
        for begin in ("0", "40"):  # whole pages, and parts of some
            expected = ran(tmp_path / "calls", recorder, "named", array, begin)
            assert ran(tmp_path / "hooked", recorder, "named", array, begin) == expected
            assert int(expected[1].split()[0]) > 1000
    code = execute(["objdump", "-d", tmp_path / "hooked"]).stdout
    assert code.count("<weft_hook_reach>\n") > 5, "no loop asks for how long it may run"


@pytest.mark.cases(1)
@pytest.mark.parametrize("options", SETS, ids=lambda words: words[0] + words[-1])
def test_the_callers_of_an_access_are_found_from_each_form(
    tmp_path: Path, weft_command: Weft, recorder: Path, options: tuple[str, ...]
) -> None:
    avx(options)
    build(tmp_path, weft_command, HERE / "callers.c", options)
    hooked, calls = (ran(tmp_path / name, recorder, "frames") for name in ("hooked", "calls"))
    assert hooked == calls
    assert int(calls[1].split()[2]) > 4 * int(calls[1].split()[0])


def test_a_stencil_runs_without_calls_and_saves_nothing_in_its_loop(tmp_path: Path, weft_command: Weft) -> None:
    (tmp_path / "relax.c").write_text(
        "void relax(int n, const double *a, double *b) {\n"
        "    for (int j = 1; j < n - 1; j++) b[j] = 0.25 * (a[j - n] + a[j + n] + a[j - 1] + a[j + 1]);\n}\n"
    )
    assert weft_command("cc", "gcc", "-O2", "-c", "relax.c").returncode == 0
    code = execute(["objdump", "-d", "--no-show-raw-insn", tmp_path / "relax.o"]).stdout
    lines = [line.partition("\t")[2].strip() for line in code.splitlines() if "\t" in line]
    asked = next(n for n, line in enumerate(lines) if line.startswith("cmpq") and "(%rip)" in line)
    back = next(n for n in range(asked + 2, len(lines)) if lines[n].startswith("j"))
    loop = lines[asked:back]
    assert not any(line.startswith("call") for line in loop)
    assert [line.split()[0] for line in loop if "(%rsp)" in line] in ([], ["movsd"])
    assert len([line for line in loop if "xmm" in line]) <= 7


def edited(text: str) -> list[str]:
    return list(HookEditor().rewrite_hooks(text.splitlines()))


FUNCTION = """f:
	.cfi_startproc
{body}
	ret
	.cfi_endproc"""


def test_a_frame_that_is_described_in_a_way_unknown_here_keeps_its_code_in_place() -> None:
    lines = edited(FUNCTION.format(body="\t.cfi_escape 0xf,0x3\n\tmovq\t%rax, %rdi\n\tcall\t__tsan_read8@PLT"))
    assert "\tcall\t__tsan_read8@PLT" in lines
    assert not any("weft_hook_span" in line and "cmpq" in line for line in lines)
    assert lines.index("\tcall\t__tsan_read8@PLT") < lines.index("\tret")


def test_an_address_that_is_read_by_others_is_still_set() -> None:
    body = "\tcall\t__tsan_read8@PLT\n\tmovq\t%rbx, %rdi\n\tmovq\t(%rdi), %rbp\n\tcall\t__tsan_write8@PLT"
    lines = edited(FUNCTION.format(body=body))
    hot = lines[: lines.index("\tret")]
    assert hot.index("\tmovq\t%rbx, %rdi") < hot.index("\tmovq\t(%rdi), %rbp")
    body = "\tcall\t__tsan_read8@PLT\n\tmovq\t%rbx, %rdi\n\tjne\t.L9\n\tcall\t__tsan_write8@PLT"
    lines = edited(FUNCTION.format(body=body))
    assert "\tmovq\t%rbx, %rdi" in lines[: lines.index("\tret")]


def test_what_lies_in_a_slot_is_loaded_where_a_write_may_have_changed_it() -> None:
    spilt = (
        "\tmovsd\t%xmm0, 8(%rsp)\t# _1, %sfp\n\tcall\t__tsan_read8@PLT\n{between}\n\tmovsd\t8(%rsp), %xmm0\t# %sfp, _1"
    )
    for between, loaded in (
        ("\taddq\t$8, %rbx", False), ("\tmovsd\t%xmm1, 8(%rsp)", True), ("\tmovq\t%rax, 4(%rsp)", True),
        ("\tmovsd\t(%rbx), %xmm0", True), ("\taddq\t$16, %rsp", True), ("\tpushq\t%rax", True),
        ("\tmovsd\t%xmm2, (%rbx)", False),
    ):  # fmt: skip
        body = "\tcall\t__tsan_read8@PLT\n" + spilt.format(between=between) + "\n\tcall\t__tsan_read8@PLT"
        lines = edited(FUNCTION.format(body=body))
        hot = lines[: lines.index("\tret")]
        assert any(line.startswith("\tmovsd\t8(%rsp), %xmm0") for line in hot) == loaded, between


def test_what_is_saved_before_a_jump_stays_for_who_reads_it_there() -> None:
    saves = "\tmovsd\t%xmm{n}, 8(%rsp)\t# _1, %sfp\n\tcall\t__tsan_read8@PLT"
    for between, kept in (("\taddq\t$8, %rbx", 1), ("\tjne\t.L7", 2), ("\tmovss\t12(%rsp), %xmm5", 2)):
        body = "\n".join(["\tcall\t__tsan_read8@PLT", saves.format(n=0), between, saves.format(n=1)])
        lines = edited(FUNCTION.format(body=body))
        hot = lines[: lines.index("\tret")]
        assert sum("8(%rsp)" in line and line.startswith("\tmovsd") for line in hot) == kept, between


def test_a_load_that_is_left_out_leaves_what_lies_above_the_number_as_a_load_would() -> None:
    again = "\tmovsd\t%xmm0, 8(%rsp)\t# _1, %sfp\n\tcall\t__tsan_read8@PLT\n\tmovsd\t8(%rsp), %xmm0\t# %sfp, _1"
    for before, expected in (
        ("\tmovsd\t(%rbx), %xmm0", None), ("\tmovsd\t(%rbx), %xmm0\n\taddsd\t%xmm1, %xmm0", None),
        ("\taddsd\t%xmm1, %xmm0", "\tmovq\t%xmm0, %xmm0"), ("\tmovupd\t(%rbx), %xmm0", "\tmovq\t%xmm0, %xmm0"),
    ):  # fmt: skip
        body = "\n".join(["\tcall\t__tsan_read8@PLT", before, again, "\tcall\t__tsan_read8@PLT"])
        lines = edited(FUNCTION.format(body=body))
        hot = lines[: lines.index("\tret")]
        assert ("\tmovq\t%xmm0, %xmm0" in hot) == (expected is not None), before
        assert not any(line.startswith("\tmovsd\t8(%rsp)") for line in hot)


def test_a_persons_assembly_within_is_left_alone() -> None:
    body = '\tcall\t__tsan_read8@PLT\n#APP\n# 3 "a.c" 1\n\tnop # mine\n# 0 "" 2\n#NO_APP\n\tcall\t__tsan_read8@PLT'
    lines = edited(FUNCTION.format(body=body))
    assert lines.count("\tnop # mine") == 1
    assert '# 3 "a.c" 1' in lines


@pytest.mark.parametrize(
    ("words", "found"),
    [(["-o", "x.o", "/tmp/a.s"], 2), (["--64", "-o", "x.s", "-"], 3), (["-I", "d.s", "-o", "x.o"], None)],
)
def test_the_file_to_assemble_is_told_from_the_values_of_options(words: list[str], found: int | None) -> None:
    assert find_source_argument(words) == found
