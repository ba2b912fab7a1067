"""What Weft knows of the MPI standard, and the recorder that is generated from it."""
