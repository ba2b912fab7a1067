"""Folders: who can change what a path leads to, and the cache that nobody else may have written."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from second_user import as_second_user, second_user
from weft.base import cache
from weft.base.json_files import write_whole
from weft.safety import folders
from weft.safety.folders import OpenFolder, append_own, cache_folder, find_weakness, is_safely_cached, make_private

Weft = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv(folders.TOLD, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folders._choose_cache.cache_clear()
    yield
    folders._choose_cache.cache_clear()


@pytest.fixture
def umask() -> Iterator[Callable[[int], None]]:
    before = os.umask(0o022)
    yield lambda mask: (os.umask(mask), None)[1]
    os.umask(before)


def test_a_folder_of_ours_is_not_weak_and_nor_is_what_is_not_there_yet(tmp_path: Path) -> None:
    assert find_weakness(tmp_path) == ""
    assert find_weakness(tmp_path / "a/b/c") == ""


@pytest.mark.parametrize(("mode", "why"), [(0o777, "everybody"), (0o703, "everybody"), (0o1777, "everybody")])
def test_what_others_can_write_to_is_weak(tmp_path: Path, mode: int, why: str) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    assert why in find_weakness(tmp_path / "open")
    (tmp_path / "open/below").mkdir(mode=0o700)
    sticky = bool(mode & stat.S_ISVTX)
    assert bool(find_weakness(tmp_path / "open/below")) is not sticky, (
        "in a sticky folder ours is not renamed by others"
    )


def test_a_project_folder_that_a_group_can_write_to_is_weak_and_a_private_group_is_not(tmp_path: Path) -> None:
    second_user()
    (tmp_path / "project").mkdir()
    os.chown(tmp_path / "project", 0, 61_999)
    (tmp_path / "project").chmod(0o2770)
    assert "a group can write" in find_weakness(tmp_path / "project/cache")
    os.chown(tmp_path / "project", 0, 0)
    assert find_weakness(tmp_path / "project/cache") == ""


def test_a_folder_or_link_of_another_user_is_weak(shared: Path) -> None:
    as_second_user(lambda: ((shared / "theirs").mkdir(), (shared / "link").symlink_to("theirs")))
    assert "another user" in find_weakness(shared / "theirs")
    assert "another user" in find_weakness(shared / "link/cache")
    (shared / "ours").mkdir(mode=0o700)
    assert find_weakness(shared / "ours") == ""


def test_each_link_on_the_way_counts(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "ours").mkdir()
    (tmp_path / "open/middle").symlink_to(tmp_path / "ours")
    (tmp_path / "first").symlink_to("open/middle")
    assert "everybody can write" in find_weakness(tmp_path / "first/cache")
    (tmp_path / "open").chmod(0o755)
    assert find_weakness(tmp_path / "first/cache") == ""
    (tmp_path / "round").symlink_to("round")
    assert "round: " in find_weakness(tmp_path / "round/cache")
    (shared / "kept").mkdir(mode=0o700)
    as_second_user(lambda: (shared / "theirs").symlink_to(shared / "kept"))
    assert "another user" in find_weakness(shared / "theirs"), "he leads it elsewhere later"


def test_without_a_home_the_cache_is_among_the_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEFT_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    assert folders._requested_cache() == "/nonexistent/weft"


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077])
def test_a_private_folder_is_private_whatever_the_umask_says(
    tmp_path: Path, umask: Callable[[int], None], mask: int
) -> None:
    umask(mask)
    make_private(tmp_path / "a/b")
    assert {stat.S_IMODE((tmp_path / one).stat().st_mode) for one in ("a", "a/b")} == {0o700}
    with pytest.raises(OSError):
        make_private(Path("/proc/nowhere/a"))


def planted(where: Path) -> None:
    """A cache with a library of another user's in it, at each place that is loaded from."""
    (where / "weft").mkdir()
    (where / "weft").chmod(0o777)
    (where / "weft/library.so").write_text("theirs")


def test_a_cache_of_another_user_is_not_used_and_that_is_said_once(
    shared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_second_user(lambda: planted(shared))
    monkeypatch.setenv("WEFT_CACHE", str(shared))
    private = cache_folder()
    assert not private.is_relative_to(shared)
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    said = capsys.readouterr().err
    assert f"{shared}/weft is not used: {shared}/weft belongs to another user" in said
    assert cache_folder() == private
    assert capsys.readouterr().err == ""
    assert cache.cache_folders() == [private]


def test_a_temporary_folder_that_is_foretold_is_not_trusted_where_another_user_made_it(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(shared))
    monkeypatch.setenv("WEFT_CACHE", "/proc/nowhere")
    name = f"weft-cache-{os.geteuid()}"
    as_second_user(lambda: (shared / name).mkdir(mode=0o777))
    assert cache_folder().name != name
    assert cache_folder().stat().st_uid == os.geteuid()


def test_where_the_cache_cannot_be_written_a_private_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_CACHE", "/proc")
    assert cache_folder() == tmp_path / f"weft-cache-{os.geteuid()}"
    assert "it cannot be written" in capsys.readouterr().err


def test_a_file_of_the_cache_that_others_could_write_is_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    made = cache_folder() / "shim/key/library.so"
    make_private(made.parent)
    made.touch()
    assert is_safely_cached(made)
    made.parent.chmod(0o777)
    assert not is_safely_cached(made)
    assert not made.exists()
    make_private(made.parent)
    made.touch(0o666)
    made.chmod(0o666)
    assert not is_safely_cached(made)


def test_which_recorder_a_library_has_is_not_taken_from_another_users_cache(
    shared: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (shared / "weft").mkdir(mode=0o755)
    monkeypatch.setattr(cache, "cache_folder", lambda: shared / "weft")
    cache.store_facts("recorder", ["libmpi.so"], [], {"folder": str(shared)})
    monkeypatch.undo()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("WEFT_CACHE", str(shared))
    assert cache.recall_facts("recorder", ["libmpi.so"], []) == {"folder": str(shared)}, "what is ours is taken"
    folders._choose_cache.cache_clear()
    user = second_user()
    os.chown(shared / "weft", user, user)
    assert cache.recall_facts("recorder", ["libmpi.so"], []) is None


def test_a_cache_of_ours_that_can_only_be_read_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on compute nodes: the recorder was built where the home can be written."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "home"))
    cache.store_facts("recorder", ["libmpi.so"], [], {"known": "yes"})
    folders._choose_cache.cache_clear()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, how: "home" not in str(path) and access(path, how))
    assert cache_folder().name == f"weft-cache-{os.geteuid()}"
    assert cache.recall_facts("recorder", ["libmpi.so"], []) == {"known": "yes"}


@pytest.mark.parametrize("what", ["link", "hard link", "file", "fifo"])
def test_what_another_user_put_where_a_name_is_foretold_is_not_written(tmp_path: Path, shared: Path, what: str) -> None:
    shared.chmod(0o777)
    precious, foretold = shared / "precious", shared / "weft-watch-host-1.txt"
    precious.write_text("precious")
    user = second_user()
    if what == "link":
        as_second_user(lambda: foretold.symlink_to(precious))
    elif what == "hard link":
        foretold.hardlink_to(precious)
    elif what == "fifo":
        as_second_user(lambda: os.mkfifo(foretold, 0o666))
    else:
        foretold.touch()
        os.chown(foretold, user, user)
    with pytest.raises(OSError):
        append_own(foretold, b"values of a program")
    assert precious.read_text() == "precious"
    assert what == "fifo" or "values" not in foretold.read_text()


def test_the_watchdogs_file_is_for_its_user_alone(tmp_path: Path) -> None:
    for _ in range(2):
        append_own(tmp_path / "watch.txt", b"a line\n")
    assert (tmp_path / "watch.txt").read_text() == "a line\na line\n"
    assert stat.S_IMODE((tmp_path / "watch.txt").stat().st_mode) == 0o600


@pytest.mark.parametrize(("mask", "mode"), [(0o077, 0o600), (0o027, 0o640), (0o022, 0o644)])
def test_what_is_written_whole_is_as_private_as_the_umask_says(
    tmp_path: Path, umask: Callable[[int], None], mask: int, mode: int
) -> None:
    umask(mask)
    write_whole(tmp_path / "sites.json", b"{}")
    assert stat.S_IMODE((tmp_path / "sites.json").stat().st_mode) == mode


def test_a_link_in_a_held_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "held").mkdir()
    (tmp_path / "held/run.json").symlink_to(tmp_path / "precious")
    OpenFolder(tmp_path / "held").write_whole("run.json", b"{}")
    assert (tmp_path / "precious").read_text() == "precious"
    assert (tmp_path / "held/run.json").read_text() == "{}"


def test_a_link_of_another_user_is_not_held_and_ours_is(shared: Path) -> None:
    (shared / "run").mkdir()
    as_second_user(lambda: (shared / "theirs").symlink_to("run"))
    (shared / "ours").symlink_to("run")
    assert OpenFolder(shared / "ours").owner == os.geteuid()
    with pytest.raises(OSError):
        OpenFolder(shared / "theirs")
