"""tasks.py in a rank of MPI: recorded.py ROUNDS [calls]; with `calls`, each suspension has a call of MPI before it."""

import runpy
import sys
from pathlib import Path

from mpi4py import MPI

if "calls" in sys.argv:
    import asyncio

    sleep = asyncio.sleep

    async def calling(seconds: float) -> None:
        """The same, after a call that is recorded."""
        MPI.COMM_SELF.Iprobe()
        await sleep(seconds)

    asyncio.sleep = calling  # type: ignore[assignment]
runpy.run_path(str(Path(__file__).with_name("tasks.py")))
