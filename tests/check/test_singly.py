"""A fault alone in its program is told as it is among others (singly.py does all of them by hand)."""

from __future__ import annotations

from pathlib import Path

import pytest

from check import singly


@pytest.mark.matrix
@pytest.mark.parametrize("name", ["buffer_write", "stale_copy"])
def test_a_program_with_one_error_is_told_of_that_error(name: str, tmp_path: Path) -> None:
    told, promised = [], set()
    for number, (single, lines) in enumerate(singly.every([name])):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = singly.told(single, folder)
        assert len({line for line, _, _ in found}) == 1, (single.function, found)
        told += [(single.suffix, found[0][0])]
        promised |= {(single.suffix, line) for line in lines}
    assert sorted(told) == sorted(promised)
    assert len(told) >= 12
