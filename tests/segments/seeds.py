"""Random programs: some of them in every run of the tests, the others in `make test-all`."""

from __future__ import annotations

import pytest


def seeds(some: int, of: int) -> pytest.MarkDecorator:
    """The test's `seeds`: the first ones, and apart from them the others."""
    others = pytest.param(range(some, of), id="others", marks=pytest.mark.matrix)
    return pytest.mark.parametrize("seeds", [pytest.param(range(some), id="some"), others])


def workers(number: int, *others: int) -> pytest.MarkDecorator:
    """The test's `workers`: one number, and apart from it others."""
    return pytest.mark.parametrize("workers", [number, *(pytest.param(n, marks=pytest.mark.matrix) for n in others)])
