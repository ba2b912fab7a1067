"""What runs inside a Python program under `weft tasks`; never imported by Weft itself, but for gc_pause.py.

`__main__.py` starts the program, `births.py` numbers its tasks, `waits.py` says what they wait for, `tracer.py` steps
one of them, `agent.py` answers the debugger. Standard library only, Python 3.11 and newer: the program's
Python need not have Weft installed.
"""
