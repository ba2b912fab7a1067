"""Provide what every room may use, and what knows nothing of runs, messages or debugged programs."""
