"""Values that a program's probes keep: written down while it runs, read back to be compared."""
