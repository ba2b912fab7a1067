"""Record runs on hosts without a common directory: each host writes to its own disk, `weft run` gathers at the end."""
