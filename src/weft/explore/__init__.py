"""Explore: every order in which the races of a program can come out, each run once, and what comes of it."""
