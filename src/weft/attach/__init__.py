"""Stacks of a job that runs now and was not started under Weft, as one tree."""
