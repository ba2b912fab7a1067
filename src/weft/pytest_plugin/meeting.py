"""Exchanges messages between the ranks of a suite: each appends lines of JSON to its own file and reads the others'.

Files are used because MPI is what is tested, and may hang. All hosts must see the folder; the lines of a rank that is
killed remain.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Final

SHORTEST: Final = 0.0005
LONGEST: Final = 0.02


class SuiteMeeting:
    """The messages of one rank, and what it has read of the others."""

    def __init__(self, folder: Path, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        folder.mkdir(parents=True, exist_ok=True)
        self._paths = [folder / f"rank-{number}.jsonl" for number in range(size)]
        self._paths[rank].unlink(missing_ok=True)  # of an earlier suite: its readers know another file
        self._own = self._paths[rank].open("ab", buffering=0)
        self._read: list[tuple[int, bytes]] = [(0, b"")] * size
        self._inodes = [0] * size
        self.said: list[dict[str, Any]] = [{} for _ in range(size)]
        """What each rank has said last under each word."""
        self._lock = threading.Lock()

    def publish(self, **words: Any) -> None:
        """Publish values under their keys, for all ranks to read."""
        self._own.write((json.dumps(words) + "\n").encode())

    def read_news(self) -> None:
        """Read what all ranks have published since the last call. The values are in `said`, by rank."""
        with self._lock:
            self._read_files()

    def _read_files(self) -> None:
        """Read the lines that the ranks have added to their files since the last call. Their values are stored in
        `said`, by rank.
        """
        for number, path in enumerate(self._paths):
            try:
                with path.open("rb") as file:
                    inode = os.fstat(file.fileno()).st_ino
                    if inode != self._inodes[number]:  # the file of an earlier suite was there before
                        self._inodes[number], self._read[number], self.said[number] = inode, (0, b""), {}
                    at, rest = self._read[number]
                    file.seek(at)
                    new = file.read()
            except OSError:
                continue
            *lines, rest = (rest + new).split(b"\n")
            self._read[number] = (at + len(new), rest)
            for line in lines:
                self.said[number].update(json.loads(line))

    def meet_all_ranks(self, seconds: float) -> list[int]:
        """Wait until each rank has seen that all others have started. Return the ranks that have not come after
        `seconds`; [] if all have.
        """
        nonce, seen = uuid.uuid4().hex, [""] * self.size
        self.publish(nonce=nonce)
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self.read_news()
            new = [str(said.get("nonce", "")) for said in self.said]
            if new != seen:
                seen = new
                self.publish(seen=seen)
            missing = [number for number, said in enumerate(self.said)
                       if not seen[number] or said.get("seen", [""] * self.size)[self.rank] != nonce]  # fmt: skip
            if not missing:
                return []
            time.sleep(LONGEST)
        return missing

    def wait_for_all_ranks(self, word: str, value: object) -> None:
        """Wait until all ranks have published `value` under the key `word`. There is no time limit here; the thread in
        `hang.py` interrupts tests that take too long.
        """
        self._poll_until(word, value)  # on one line: who looks at the ranks sees them all stand there (attach/calls.py)

    def _poll_until(self, word: str, value: object) -> None:
        """Read the files of all ranks again and again until each rank has published `value` under the key `word`."""
        pause = SHORTEST
        while True:
            self.read_news()
            if all(said.get(word) == value for said in self.said):
                return
            time.sleep(pause)
            pause = min(LONGEST, 2 * pause)
