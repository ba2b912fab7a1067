"""Run `python -m weft.launch.pvm PROGRAM ARGS`: see machine.py."""

from __future__ import annotations

import sys

from weft.launch.pvm.supervisor import run_and_exit

run_and_exit(sys.argv[1:])
