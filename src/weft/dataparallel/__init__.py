"""What the engines of `weft check` share: requests, texts, building, running, findings, and the runtime in C."""
