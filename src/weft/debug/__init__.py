"""The prompt: one console for all ranks of a replay, each stop at the same place every time.

`Debugger` (debugger.py) moves the ranks, `Standing` says where they are, `Stops` holds breakpoints and watches,
`Looks` shows what is to be seen at a stop: all answer with data. `prompt.py` reads commands and writes text or JSON.
A `Replica` is one running replay, driven by its pages of control; `gdb.py` and `agent.py` are hands inside the ranks.
"""
