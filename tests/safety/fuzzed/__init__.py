"""What `make fuzz` damages, and what reads it: a module for each kind of input. tests/safety/fuzz.py runs the cases."""
