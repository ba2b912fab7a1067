"""The watchdog: reports where all ranks are if a program has made no progress for some seconds."""
