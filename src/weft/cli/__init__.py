"""The commands, one file each: `register(subparsers)` declares it, `run(args)` does it and returns the exit code."""
