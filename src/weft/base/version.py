"""Weft's version, which records and reports name."""

from typing import Final

VERSION: Final = "0.1.0"
