"""Colours change no text, and nothing in a source is markup."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.sources import colour

FILES = ["a.py", "a", "a.pyx", "a.c", "a.h", "a.cpp", "a.cu", "a.f90", "a.F90", "a.f", "a.inc", "a.jl", "a.rs", "a.zz"]


@pytest.mark.parametrize("file", FILES)
def test_every_language_is_coloured_line_by_line(file: str) -> None:
    lines = ["", "      x = 1", "\ty = 'text'", "", ""]
    made = colour.colour_lines(lines, file)
    assert ["".join(text for _, text in line) for line in made] == lines
    assert {kind for line in made for kind, _ in line} <= {*colour.CLASSES, ""}
    assert ("n", "1") in made[1]


@given(st.lists(st.text(alphabet="abC_(){}<>\"'#/*!&;=, \t\u2028\x0c\x85\u202e1.", max_size=40), max_size=9),
       st.sampled_from(FILES))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_tokens_of_any_lines_are_the_lines(lines: list[str], file: str) -> None:
    made = colour.colour_lines(lines, file)
    assert ["".join(text for _, text in line) for line in made] == lines


def test_a_text_over_many_lines_is_one_to_its_end() -> None:
    made = colour.colour_lines(['"""one', "two = 2", '"""', "three = 3"], "a.py")
    assert made[1] == [("s", "two = 2")] and ("n", "3") in made[3]


def test_what_is_very_long_stays_plain() -> None:
    assert colour.colour_lines(["x = 1" * colour.MAX_TEXT], "a.py")[0][0][0] == ""


def test_nothing_of_the_source_is_markup() -> None:
    text = '<script>alert("x")</script>'
    made = "".join(colour.render_html(line) for line in colour.colour_lines([f"# {text}", f"x = '{text}'"], "a.py"))
    assert "<script" not in made and made.count("&lt;script&gt;") == 2


def test_a_line_is_cut_within_its_tokens() -> None:
    assert colour.cut_line([("k", "abc"), ("", "def")], 4) == [("k", "abc"), ("", "d")]
