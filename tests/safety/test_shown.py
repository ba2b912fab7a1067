"""What is printed acts on nothing: one sink for both streams."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.safety.shown import Output, shown
from weft.safety.started import own_python
from weft.trace.builder import Builder

Weft = Callable[..., subprocess.CompletedProcess[str]]
HOSTILE = {
    "clears": "\x1b[2J", "title": "\x1b]0;x\x07", "clipboard": "\x1b]52;c;eA==\x1b\\", "answers": "\x1b[6n",
    "one byte": "\x9b2J", "hides": "\x1b[8m", "bell": "\x07", "back": "a\x08b", "over": "good\rbad",
    "bidi": "\u202etxt",
    "isolate": "\u2066a\u2069", "half": "\ud800", "tags": "\U000e0041", "line": "\u2028",
}  # fmt: skip


def printed(text: str) -> str:
    raw = io.BytesIO()
    stream = Output(raw, "utf-8")
    print(text, file=stream, flush=True)
    return raw.getvalue().decode()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_acts_on_a_terminal_is_printed_as_an_escape(text: str) -> None:
    assert printed(text) == shown(text) + "\n"
    assert "\\" in printed(text)
    assert printed(text).replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "text", ["plain", "Ünïcodé ✓ 漢字 👩‍👩‍👧", "\x1b[1;31merror\x1b[0m", "\x1b[38;2;1;2;3mx\x1b[0m", "a\tb\r\nc"]
)
def test_what_only_shows_is_printed_as_it_is(text: str) -> None:
    assert printed(text) == text + "\n"


def test_what_is_printed_of_json_stays_json() -> None:
    text = json.dumps(list(HOSTILE.values()), ensure_ascii=False)
    assert json.loads(printed(text), strict=True) == list(HOSTILE.values())


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["report", "replay"])
def test_no_command_hands_a_hostile_path_to_the_terminal(weft_command: Weft, name: str) -> None:
    text = "".join(text for text in HOSTILE.values() if text != "\ud800")
    done = weft_command(name, f"no-{text}-run")
    assert done.returncode != 0
    assert "no-" in done.stderr
    assert (done.stdout + done.stderr).replace("\n", "").isprintable(), done.stderr


def test_what_a_run_names_is_asked_about_without_its_escapes(weft_command: Weft, tmp_path: Path) -> None:
    made = Builder(1, path=tmp_path / "run")
    made.ranks[0].barrier()
    made.write()
    facts = json.loads((tmp_path / "run/run.json").read_text())
    facts["command"] = ["touch", *HOSTILE.values()]
    facts["cwd"] = "/tmp/\x1b[2J"
    (tmp_path / "run/run.json").write_text(json.dumps(facts))
    for words in (["replay"], ["debug", "-c", "ranks"], ["explore"], ["replay", "--trust"]):
        done = weft_command(words[0], tmp_path / "run", *words[1:])
        assert done.returncode != 0
        assert "Traceback" not in done.stderr
        assert (done.stdout + done.stderr).replace("\n", "").isprintable(), done.stderr


def test_a_module_of_the_working_folder_is_not_imported(tmp_path: Path) -> None:
    for name in ("weft.py", "json.py", "ctypes.py"):
        (tmp_path / name).write_text("open('executed', 'w')\n")
    look = own_python("-c", "import weft, json, ctypes")
    subprocess.run(look, cwd=tmp_path, check=True)
    assert not (tmp_path / "executed").exists()
    subprocess.run([sys.executable, "-c", "import ctypes"], cwd=tmp_path, check=True)
    assert (tmp_path / "executed").exists(), "without the function it is"
