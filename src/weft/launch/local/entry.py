"""Start a rank on its host, run by the path of this file: `python entry.py SETUP -- PROGRAM ARGS`.

Ctrl-C ends the process silently from the first line on, not only once all is imported. If the parent ignores Ctrl-C, so
does the program.
"""

from __future__ import annotations

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sys

from weft.launch.local import start_rank

if __name__ == "__main__":
    sys.exit(start_rank.main(sys.argv[1:]))
