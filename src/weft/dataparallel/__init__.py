"""What the engines of `weft check` share: requests, source maps, building, running, findings, and the runtime in C."""
