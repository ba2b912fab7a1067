"""Know the MPI standard, and generate the recorder from it."""
