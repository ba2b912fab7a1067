"""Programs in Cilk itself: MIT Cilk-5, compiled by the person's own copy with Weft's part in each frame."""
