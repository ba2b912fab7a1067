"""Watch arrays that ranks share by ghost cells: record what a program does to them, and judge it after the run."""
