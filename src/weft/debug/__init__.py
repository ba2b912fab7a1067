"""The debugger of replays: one console for all ranks, with each stop at the same place every time.

`Debugger` (debugger.py) moves the ranks, `Standing` says where they are, `Stops` holds breakpoints and watchpoints,
`Looks` shows what can be seen at a stop: all answer with data. `prompt.py` reads commands and writes text or JSON. A
`Replica` is one running replay, driven by its control pages; `gdb.py` and `agent.py` debug single ranks.
"""
