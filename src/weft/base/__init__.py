"""The ground floor: what every room may use, and what knows nothing of runs, messages or programs that are debugged."""
