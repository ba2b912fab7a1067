"""The agent of `weft tasks` inside a Python program; Weft itself imports only gc_pause.py and schedule_file.py of it.

`__main__.py` starts the program, `births.py` numbers its tasks, `waits.py` finds out what they wait for, `tracer.py`
steps a task, `agent.py` answers the debugger. Only the standard library of Python 3.11 and newer is used: the program's
Python need not have Weft installed.
"""
