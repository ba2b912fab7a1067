"""The debug adapter: sessions of `weft debug` for editors, over the Debug Adapter Protocol.

`Adapter` (adapter.py) answers the requests of one editor over a `Wire` (wire.py). `session.py` lets ranks run and
reports where they stop, `stacks.py` shows threads, frames and values, `breakpoints.py` maps the editor's breakpoints to
the debugger's.
"""
