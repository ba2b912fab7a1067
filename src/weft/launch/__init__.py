"""Start a program with the recorder in it, and watch it until it ends."""
