"""Values that a program's probes keep: recorded while the program runs, read afterwards to be compared."""
