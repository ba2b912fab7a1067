"""Programs in the language of MIT Cilk-5, compiled by the user's own copy with Weft's part in each frame."""
