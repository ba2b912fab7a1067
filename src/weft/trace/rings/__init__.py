"""Runs that keep only their last calls (`weft run --keep`): each stream of calls in a record is a ring.

`chunks` reads a ring and the account of what it dropped. `suffix` says which calls of a run count, as the rings of its
threads begin at different moments. `snapshots` copies the records of a run before its rings drop what is in them.
"""
