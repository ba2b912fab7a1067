"""Assembly of a compiler rewritten: what its sanitizer hooks call becomes Weft's own, and costs less."""
