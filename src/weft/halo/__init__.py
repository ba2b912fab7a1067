"""Arrays that ranks share by ghost cells: what a program does to them is written down and judged after the run."""
