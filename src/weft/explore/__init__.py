"""Explore: run each order in which the races of a program can come out once, and compare the results."""
