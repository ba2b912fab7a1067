"""`pytest --weft-check`: checks every parallel function of Numba that a test calls; a test with a finding fails."""

from __future__ import annotations

from typing import Final

import pytest

OPTION: Final = "--weft-check"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option to pytest."""
    group = parser.getgroup("weft", "Weft, the debugger for parallel programs")
    group.addoption(OPTION, action="store_true", help="check the prange loops that tests run; a fault fails the test")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Register the checks before the suite is imported. They must be there that early because a function with a
    signature is compiled when it is defined.
    """
    if getattr(early_config.known_args_namespace, "weft_check", False):
        # pytest imports this in every suite of the environment: nothing is to be there where nothing is checked.
        from weft.pytest_plugin.prange_checks import PrangeChecks

        early_config.pluginmanager.register(PrangeChecks(), "weft-checks")
