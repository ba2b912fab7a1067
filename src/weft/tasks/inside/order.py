"""What the file of an order of tasks calls itself, for the program and for Weft beside it."""

SCHEMA = "weft-schedule/1"
