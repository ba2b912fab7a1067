"""What a command has started and made goes with it, whatever ends the command; what was not its own goes on."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from survival.leftovers import ENDING, LASTING, Line, Scene
from tests_support import Installed
from weft.cli.main import command_names

GRACE = 8.0
"""Seconds until what a killed command started has to be gone: 5, and what a busy machine adds."""
PATIENCE = 60.0
"""Seconds for a command to end."""
MOMENTS = (0.2, 0.5, 0.8)
"""Shares of its length after which a command that ends by itself is ended."""
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
FULL = Path("/dev/full")


@dataclass(frozen=True)
class Whole:
    """A command that nothing ended: its status, its seconds, and whether it prints on standard output."""

    status: int
    seconds: float
    prints: bool


@pytest.fixture
def scenes(tmp_path: Path, mpich: Installed) -> Iterator[Callable[[], Scene]]:
    """Make a scene, as often as it is asked for."""
    made: list[Scene] = []

    def make() -> Scene:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Scene(folder, mpich))
        return made[-1]

    yield make
    for scene in made:
        scene.end()


WHOLE: dict[str, Whole] = {}


def whole(name: str, make_scene: Callable[[], Scene]) -> Whole:
    """Run a line that ends by itself, once for all tests."""
    if name not in WHOLE:
        scene = make_scene()
        words = ENDING[name].make(scene)
        with (scene.folder / "printed").open("wb") as printed:
            begun = time.monotonic()
            process = scene.start(words, printed.fileno())
            status = process.wait(PATIENCE)
        WHOLE[name] = Whole(status, time.monotonic() - begun, (scene.folder / "printed").stat().st_size > 0)
        holds_nothing(scene, f"{name}, undisturbed")
    return WHOLE[name]


def holds_nothing(scene: Scene, what: str, *, killed: bool = False) -> None:
    """Nothing of the command is there any more, and it ended in good order."""
    # A pass of a compiler whose caller was killed comes to its end.
    grace = PATIENCE if killed and what.startswith("cc ") else GRACE
    assert scene.wait_for(lambda: not scene.processes(), grace), f"{what}: {scene.processes()}"
    if not killed:
        assert scene.wait_for(lambda: not scene.left_in_memory(), 2), f"{what}: {scene.left_in_memory()}"
        assert scene.left_in_folder() == [], what
    # A Python program that gets Ctrl-C says so itself.
    assert not re.search(r'Traceback(.*\n)*? *File "[^"]*/weft/(?!numba/inside)', scene.output), (
        f"{what}: {scene.output}"
    )
    for job in scene.others:
        assert job.poll() is None, f"{what}: the job that was not its own has ended"


def end(process: subprocess.Popen[bytes], line: Line) -> int:
    """Wait for the end of a command; a prompt may wait for the end of its input."""
    try:
        return process.wait(3 if line.has_prompt else PATIENCE)
    except subprocess.TimeoutExpired:
        assert line.has_prompt, "it does not end"
        assert process.stdin is not None
        process.stdin.close()
        return process.wait(PATIENCE)


def wait_until_under_way(line: Line, scene: Scene, process: subprocess.Popen[bytes], seconds: float) -> None:
    if line.is_under_way is not None:
        there = line.is_under_way
        assert scene.wait_for(lambda: there(scene) or process.poll() is not None, 200), scene.output
        assert process.poll() is None, scene.output
    time.sleep(seconds)
    scene.note_memory()


LINES = {**ENDING, **LASTING}
EACH = {("check of C", signal.SIGTERM), ("check of C", signal.SIGKILL), ("tasks at its prompt", signal.SIGKILL)}


def test_every_command_has_a_line() -> None:
    assert set(ENDING) == set(command_names())


AFTER_CTRL_C = {
    "check": {3}, "check of C": {3}, "check of Numba": {3}, "debug at its prompt": {0}, "tasks at its prompt": {0},
}  # fmt: skip
"""What is told of the program so far has its status; a prompt takes it as the wish to stop what runs."""


def moments(name: str, make_scene: Callable[[], Scene]) -> list[tuple[float, set[int]]]:
    """The seconds after which a command is ended, and the status that it may have come to by itself."""
    if name in LASTING:
        return [(0.3, set())]
    return [(whole(name, make_scene).seconds * share, {whole(name, make_scene).status}) for share in MOMENTS]


def is_possible(name: str) -> None:
    if name == "check of Numba":
        pytest.importorskip("numba")
    if name.startswith(("check", "cc")) and shutil.which("gcc") is None:
        pytest.skip("no gcc")


@pytest.mark.parametrize(
    ("name", "cause"),
    [pytest.param(name, cause, marks=[] if (name, cause) in EACH else pytest.mark.matrix, id=f"{name}-{cause.name}")
     for name in LINES for cause in SIGNALS],
)  # fmt: skip
def test_nothing_is_left_of_a_command_that_gets_a_signal(
    name: str, cause: signal.Signals, scenes: Callable[[], Scene]
) -> None:
    is_possible(name)
    line = LINES[name]
    for seconds, by_itself in moments(name, scenes):
        scene = scenes()
        process = scene.start(line.make(scene))
        wait_until_under_way(line, scene, process, seconds)
        os.kill(process.pid, cause)
        status = end(process, line)
        what = f"{name} after {seconds:.2f} s, ended by {cause.name} with {status}"
        # A shell tells both alike: Python has not come to Weft yet, or has left it.
        expected = {-cause, 128 + cause, *by_itself}
        if cause == signal.SIGINT:
            expected |= AFTER_CTRL_C.get(name, set())
        assert status in expected, f"{what}: {scene.output}"
        holds_nothing(scene, what, killed=cause == signal.SIGKILL)


@pytest.mark.matrix
@pytest.mark.parametrize("name", LINES)
def test_nothing_is_left_when_the_terminal_closes(name: str, scenes: Callable[[], Scene]) -> None:
    is_possible(name)
    line = LINES[name]
    for seconds, by_itself in moments(name, scenes):
        scene = scenes()
        master, slave = pty.openpty()
        try:
            process = scene.start_in_terminal(line.make(scene), slave)
            os.close(slave)
            os.set_blocking(master, False)
            wait_in_terminal(line, scene, process, master)
            time.sleep(seconds)
            scene.note_memory()
        finally:
            os.close(master)
        status = process.wait(PATIENCE)
        what = f"{name} after {seconds:.2f} s, its terminal closed, with {status}"
        assert status in {129, -1, *by_itself}, f"{what}: {scene.output}"
        holds_nothing(scene, what)


def wait_in_terminal(line: Line, scene: Scene, process: subprocess.Popen[bytes], master: int) -> None:
    """The same in a terminal: what that shows is written behind what the command says on standard error."""

    def is_there() -> bool:
        with contextlib.suppress(OSError), scene.written.open("ab") as output:  # OSError: nothing there
            output.write(os.read(master, 1 << 16))
        return line.is_under_way is None or line.is_under_way(scene) or process.poll() is not None

    assert scene.wait_for(is_there, 200), scene.output


@pytest.mark.matrix
@pytest.mark.parametrize("name", LINES)
def test_nothing_is_left_when_its_time_is_up(name: str, scenes: Callable[[], Scene]) -> None:
    is_possible(name)
    scene = scenes()
    words = LINES[name].make(scene)
    process = scene.start(["timeout", "-s", "TERM", "1", *words])
    status = process.wait(PATIENCE)
    what = f"timeout 1 {name} with {status}"
    assert status in {124, *([whole(name, scenes).status] if name in ENDING else [])}, f"{what}: {scene.output}"
    holds_nothing(scene, what)


@pytest.mark.matrix
@pytest.mark.parametrize("whom", ["launcher", "program"])
@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line.has_launcher or line.has_program])
def test_nothing_is_left_when_what_it_started_is_killed(name: str, whom: str, scenes: Callable[[], Scene]) -> None:
    is_possible(name)
    line = LINES[name]
    if whom == "launcher" and not line.has_launcher:
        return
    scene = scenes()
    process = scene.start(line.make(scene))
    find = scene.launchers if whom == "launcher" else scene.programs
    if line.is_under_way is None:
        scene.wait_for(lambda: bool(find()) or process.poll() is not None)
    else:
        wait_until_under_way(line, scene, process, 0.3)
        assert find(), scene.processes()
    scene.note_memory()
    for pid in find():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    status = end(process, line)
    what = f"{name}, its {whom} killed, with {status}"
    assert status >= 0, what
    holds_nothing(scene, what)


@pytest.mark.matrix
@pytest.mark.skipif(not FULL.exists(), reason="no /dev/full")
@pytest.mark.parametrize("name", ENDING)
def test_nothing_is_left_when_the_disk_is_full(name: str, scenes: Callable[[], Scene]) -> None:
    """One sentence, and status 4, of a command that prints."""
    is_possible(name)
    undisturbed = whole(name, scenes)
    scene = scenes()
    with FULL.open("wb") as full:
        status = scene.start(ENDING[name].make(scene), full.fileno()).wait(PATIENCE)
    assert status == (4 if undisturbed.prints else undisturbed.status), scene.output
    if undisturbed.prints:
        assert scene.output.count("weft: standard output cannot be written: No space left on device") == 1, scene.output
    holds_nothing(scene, f"{name} on a full disk with {status}")


@pytest.mark.matrix
@pytest.mark.parametrize("name", ENDING)
def test_nothing_is_left_when_the_reader_has_left(name: str, scenes: Callable[[], Scene]) -> None:
    """The status is the one that it would have had."""
    is_possible(name)
    undisturbed = whole(name, scenes)
    scene = scenes()
    reader, writer = os.pipe()
    os.close(reader)
    try:
        status = scene.start(ENDING[name].make(scene), writer).wait(PATIENCE)
    finally:
        os.close(writer)
    assert status == undisturbed.status, scene.output
    holds_nothing(scene, f"{name} whose reader has left, with {status}")
