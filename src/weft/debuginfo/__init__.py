"""Read what a compiled file says about itself: its build id and name, source lines, variables."""
