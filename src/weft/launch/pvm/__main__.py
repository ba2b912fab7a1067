"""`python -m weft.launch.pvm PROGRAM ARGS`: see machine.py."""

from __future__ import annotations

import sys

from weft.launch.pvm.supervisor import run

run(sys.argv[1:])
