"""The debug adapter: sessions of `weft debug` for editors, by the Debug Adapter Protocol.

`Adapter` (adapter.py) answers the requests of one editor over a `Wire` (wire.py); `session.py` lets ranks run and tells
where they stopped, `stacks.py` shows frames and values, `points.py` keeps the editor's breakpoints.
"""
