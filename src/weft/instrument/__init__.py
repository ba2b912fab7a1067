"""Rewrite a compiler's assembly: calls of sanitizer hooks become cheaper code of Weft's."""
