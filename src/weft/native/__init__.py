"""Contains the native side: the record's layout (format.h), its writer, the shim's sources and the fast kernels."""
