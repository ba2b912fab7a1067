"""The prompt: one console for all ranks of a replay, each stop at the same place every time.

`Debugger` (debugger.py) answers the commands with data; `prompt.py` reads commands and renders answers as text or JSON.
A `Replica` is one running replay, driven by its pages of control; `gdb.py` and `agent.py` are hands inside the ranks.
"""
