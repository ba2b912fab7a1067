"""Starting a program with the recorder in it, and watching it until it ends."""
