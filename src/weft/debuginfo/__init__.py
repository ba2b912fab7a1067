"""What a compiled file says of itself: its build id and name, the lines of its addresses, its variables."""
