"""A function is named only for an address within it, by whichever symbols a file or its companions have."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from machine import need
from weft.debuginfo.addr2line import lines_of
from weft.debuginfo.elf import read_build_id
from weft.debuginfo.symbols import name_functions

SOURCE = """
namespace tools { __attribute__((noinline, visibility("default"))) int shown(int x) { return 3 * x; } }
__attribute__((noinline)) static int hidden(int x) { return x ? tools::shown(x) - 1 : 0; }
int (*keep)(int) = hidden;
"""


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, int]]:
    """A library of two functions, with their addresses, and an empty cache."""
    need("c++", "nm", "strip", "objcopy", "addr2line", "xz")
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "debuginfod"))
    library = tmp_path / "two.so"
    (tmp_path / "two.cpp").write_text(SOURCE)
    run(
        "c++",
        "-g",
        "-O1",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-Wl,--build-id",
        "-o",
        library,
        "two.cpp",
        cwd=tmp_path,
    )
    told = run("nm", "-C", library, cwd=tmp_path).splitlines()
    names = {"shown": " tools::shown(int)", "hidden": " hidden(int)"}
    return library, {
        key: int(next(line for line in told if line.endswith(name)).split()[0], 16) for key, name in names.items()
    }


def run(*words: str | Path, cwd: Path) -> str:
    return subprocess.run(
        [str(w) for w in words], cwd=cwd, capture_output=True, text=True, check=True, timeout=60
    ).stdout


def names(library: Path, places: dict[str, int]) -> dict[str, str | None]:
    """What each address is told with, a byte behind its call as a return address is."""
    told = lines_of(str(library), read_build_id(library), [at + 2 for at in places.values()], [])
    return {key: told.get(str(at + 2), [(None, 0, None)])[0][2] for key, at in places.items()}


def test_a_stripped_file_names_only_what_an_exported_symbol_holds(built: tuple[Path, dict[str, int]]) -> None:
    library, places = built
    assert names(library, places) == {"shown": "tools::shown(int)", "hidden": "hidden(int)"}
    run("strip", library, cwd=library.parent)
    assert names(library, places) == {"shown": "tools::shown(int)", "hidden": None}


def test_symbols_that_a_stripped_file_brings_compressed_are_used(built: tuple[Path, dict[str, int]]) -> None:
    library, places = built
    folder = library.parent
    run("objcopy", "--only-keep-debug", "--strip-debug", library, "mini", cwd=folder)
    run("objcopy", "-S", "--remove-section", ".comment", library, "rest", cwd=folder)
    run("xz", "mini", cwd=folder)
    run("strip", library, cwd=folder)
    run("objcopy", "--add-section", ".gnu_debugdata=mini.xz", library, cwd=folder)
    assert names(library, places) == {"shown": "tools::shown(int)", "hidden": "hidden(int)"}


def test_what_debuginfod_fetched_before_is_used(built: tuple[Path, dict[str, int]]) -> None:
    library, places = built
    cache = library.parent / "debuginfod" / read_build_id(library)
    cache.mkdir(parents=True)
    run("objcopy", "--only-keep-debug", library, cache / "debuginfo", cwd=library.parent)
    run("strip", library, cwd=library.parent)
    at = places["hidden"] + 2
    [(file, line, _), *_] = lines_of(str(library), read_build_id(library), [at], [])[str(at)]
    assert (Path(file or "").name, line) == ("two.cpp", 3)


@pytest.mark.parametrize("cut", [10, 64, 1000])
def test_a_damaged_file_names_nothing_and_raises_nothing(cut: int, built: tuple[Path, dict[str, int]]) -> None:
    library, places = built
    library.write_bytes(library.read_bytes()[:cut])
    assert name_functions([library, library.parent / "none"], list(places.values())) == {}
