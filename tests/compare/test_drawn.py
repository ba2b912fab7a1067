"""What a notebook shows of two runs' values: words, and the error over the array as an SVG picture."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import weft
from compare.test_values import written
from weft.compare.values import compare_values
from weft.compare.values.error_svg import RAMP, compute_ramp_colour
from weft.compare.values.notebook import DrawnComparison
from weft.errors import TraceError, UsageError

SVG = "{http://www.w3.org/2000/svg}"


def held(folder: Path, form: str = "values", wrong: int = 123) -> DrawnComparison:
    """Two runs, the second with an element of A that is wrong from iteration 1 on."""
    before, after = (written(folder / name, form, "0,100,300", row) for name, row in (("a", -1), ("b", wrong)))
    return DrawnComparison.from_comparison(compare_values(before, after, {}))


def test_a_notebook_shows_words_and_the_error_where_it_came_and_where_it_ended(tmp_path: Path) -> None:
    made = held(tmp_path)
    shown = made._repr_html_()
    assert "first difference: probe a" in shown and "A[123, 7] is" in shown
    assert shown.count("<svg") == 2
    pictures = re.findall(r"<svg.*?</svg>", shown)
    assert "in iteration 1 of step" in pictures[0] and "in iteration 2 of step" in pictures[1]
    for picture in pictures:
        root = ElementTree.fromstring(picture)
        kinds = [path.get("class") for path in root.iter(f"{SVG}path")]
        assert kinds == ["same", "e23"], "one cell is apart, all others alike"
        [cell] = [path.get("d") or "" for path in root.iter(f"{SVG}path") if path.get("class") == "e23"]
        x, y = map(float, re.findall(r"M([\d.]+) ([\d.]+)", cell)[0])
        assert x == pytest.approx(64 + 7 / 40 * 546, abs=0.1)
        assert y == pytest.approx(44 + 240 * (123 * 64 // 300) / 64, abs=0.1)


@pytest.mark.parametrize(("unit", "words"), [("distance", "1e-06"), ("ulps", "units in the last place")])
def test_the_picture_has_a_scale_in_the_unit_that_was_asked_for(tmp_path: Path, unit: str, words: str) -> None:
    assert words in held(tmp_path).plot(unit=unit)


def test_words_alone_are_shown_where_no_element_is_known_or_nothing_differs(tmp_path: Path) -> None:
    hashes = held(tmp_path / "hashes", "hashes")
    assert "to see which element" in hashes._repr_html_() and "<svg" not in hashes._repr_html_()
    alike = held(tmp_path / "alike", wrong=-1)
    assert "are alike" in alike._repr_html_() and "<svg" not in alike._repr_html_()
    with pytest.raises(UsageError, match="no array differs"):
        alike.plot()
    with pytest.raises(UsageError, match="at the probe 'b'"):
        held(tmp_path / "other").plot(probe="b")


def test_runs_are_compared_by_their_folders_with_the_words_of_the_command(tmp_path: Path) -> None:
    held(tmp_path)
    assert not weft.differences(tmp_path / "a", tmp_path / "b").alike
    assert weft.differences(tmp_path / "a", tmp_path / "b", absolute=1e-5).alike
    with pytest.raises(UsageError, match="'relativ' is not a setting; the nearest is 'relative'"):
        weft.differences(tmp_path / "a", tmp_path / "b", relativ=1)
    with pytest.raises(UsageError, match="-1 is not a number of 0 or more"):
        weft.differences(tmp_path / "a", tmp_path / "b", ulps=-1)
    with pytest.raises(TraceError, match="has no values"):
        weft.differences(tmp_path, tmp_path / "b")


@pytest.mark.parametrize("ground", RAMP)
def test_colours_stand_out_the_more_the_larger_the_error_whatever_their_hue(ground: str) -> None:
    """By WCAG's luminance."""
    light = [luminance(compute_ramp_colour(k / 64, ground)) for k in range(65)]
    assert light == sorted(light, reverse=ground == "light") and len(set(light)) == 65
    assert (max(light) + 0.05) / (min(light) + 0.05) > 10


def luminance(text: str) -> float:
    """How light a colour is."""
    parts = [int(n) / 255 for n in re.findall(r"\d+", text)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in parts]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
