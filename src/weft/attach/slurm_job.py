"""Look at a Slurm job: start a Weft on each of its nodes, and merge what these have seen."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

from weft.attach.model import Job, RankStacks
from weft.errors import UsageError, WeftError

SCHEMA = "weft-stacks/1"
NAME = re.compile(r"(\d+(?:_\d+)?)(?:\.(\d+))?")
SECONDS = 120.0
TRIES = 3
"""Looks are repeated where srun ends well without a word: it has been seen to lose what its tasks print."""


def is_running_slurm_job(word: str) -> bool:
    """Return whether a word such as `123` or `123.0` names a running job or job step of Slurm. A plain number may name
    a process as well.
    """
    found = NAME.fullmatch(word)
    return found is not None and shutil.which("squeue") is not None and bool(count_nodes(found[1]))


def count_nodes(job: str) -> int:
    """Return on how many nodes a job runs; 0 if Slurm does not know the job, or it does not run."""
    said = _first_line_of_command(["squeue", "--noheader", f"--jobs={job}", "--states=RUNNING", "--format=%D"])
    return int(said) if said.isdigit() else 0


def find_job_number(job: str) -> str:
    """Return the number that Slurm gives to the processes of a job. For an element of an array of jobs, this is another
    number than the user's `JOB_ELEMENT`.
    """
    return _first_line_of_command(["squeue", "--noheader", f"--jobs={job}", "--format=%A"]) or job


def _first_line_of_command(command: list[str]) -> str:
    """Return the first line that a command of Slurm prints; empty if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip().partition("\n")[0].strip() if done.returncode == 0 else ""


def look_at_job(job_or_step: str, interval: float) -> Job:
    """Return the stacks of all ranks of a Slurm job. A Weft that srun starts on each node of the job reads them there.

    `interval`: seconds between two looks. WeftError if srun gives no answer.
    """
    found = NAME.fullmatch(job_or_step)
    assert found is not None
    count = count_nodes(found[1])
    here = [sys.executable, "-P", "-m", "weft", "attach", "--here", "--format", "json"]
    command = [
        "srun", f"--jobid={found[1]}", "--overlap", f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1",
        "--mpi=none", "--kill-on-bad-exit=0", "--quiet", *here, f"--interval={interval}",
        find_job_number(found[1]) + (f".{found[2]}" if found[2] else ""),
    ]  # fmt: skip
    # What another srun has set for its own tasks would be taken as options of this one.
    environment = {name: value for name, value in os.environ.items() if not re.match(r"SLURM_(?!CONF)|SRUN_", name)}
    for _ in range(TRIES):
        done = _run_srun(command, environment)
        if told := list(parse_answers(done.stdout)):
            return merge_answers(told, count, interval)
        if done.returncode or done.stderr.strip():
            break
    why = done.stderr.strip().splitlines()[-1:] or [f"srun ended with status {done.returncode} and gave no answer"]
    raise WeftError(f"job {job_or_step} could not be inspected: {why[0]}")


def _run_srun(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command by srun and return the ended process. WeftError if srun does not answer in time."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
            env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WeftError(f"`srun --overlap` does not answer: {error}") from error


def parse_answers(output: str) -> Iterable[dict[str, Any]]:
    """Yield the JSON objects that the nodes have printed, one per line."""
    for line in output.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and told.get("schema") == SCHEMA:
            yield told


def merge_answers(answers: list[dict[str, Any]], node_count: int, interval: float) -> Job:
    """Return one job with the ranks of all nodes' answers. UsageError if no rank was found."""
    ranks = {seen.rank: seen for one in answers for rank in one["ranks"] if (seen := RankStacks.from_dict(rank))}
    silent = node_count - len(answers)
    notes = [f"{silent} of {node_count} nodes did not answer"] if silent > 0 else []
    size = max(one["size"] for one in answers)
    if not ranks:
        raise UsageError("no MPI rank of this job was found on its nodes")
    return Job(size, interval, [ranks[rank] for rank in sorted(ranks)], notes)
