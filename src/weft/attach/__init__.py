"""Show the stacks of a running job that was not started under Weft, as one tree."""
