"""Data-parallel programs, checked: what their directives and loops promise is held against what they do."""
