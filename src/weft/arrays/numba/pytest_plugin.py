"""The pytest plugin where an editable installation from before `arrays` became `check` looks for it.

Such an installation is renewed by `make setup`; without this file pytest does not start until then.
"""

from weft.check.numba.pytest_plugin import *  # noqa: F403
