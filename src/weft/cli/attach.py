"""Show where the ranks of a running job are. The job need not have been started under Weft.

weft attach                  the MPI job of this host, if it is the only one
weft attach PID...           the ranks beneath a launcher (mpiexec, mpirun), or the ranks themselves
weft attach JOB[.STEP]       a Slurm job, on all its nodes
weft attach --core FILE...   the core files of a job that crashed

All ranks pause for a moment and then continue. Weft shows the stack of each rank; a stack alone proves no deadlock.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.attach import priority
from weft.cli import _options
from weft.errors import UsageError

if TYPE_CHECKING:
    from weft.attach.model import Job
    from weft.attach.processes import RankProcess
    from weft.debug.ptrace import Standing

INTERVAL = 1.0


def register(subparsers: Any) -> None:
    """Declare `weft attach` and its options to argparse."""
    parser = subparsers.add_parser(
        "attach", help="show where the ranks of a running job are", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("what", nargs="*", metavar="PID | JOB[.STEP]", help="process ids, or a Slurm job")
    parser.add_argument(
        "--core", nargs="+", metavar="FILE", type=Path, help="read the core files of a job that crashed"
    )
    parser.add_argument("--program", metavar="FILE", default="",
                        help="with --core: the program, if it is not where it ran")  # fmt: skip
    parser.add_argument("--interval", type=float, default=INTERVAL, metavar="SECONDS",
                        help="look twice, SECONDS apart, to see which ranks move; 0: look once")  # fmt: skip
    parser.add_argument("--all", action="store_true", help="also show the frames inside the MPI library")
    parser.add_argument("--format", choices=("text", "json", "svg"), default="text",
                        help="text (default); json: weft-stacks/1; svg: a picture of the tree")  # fmt: skip
    _options.add_output(parser)
    parser.add_argument("--job", action="store_true", help="show all ranks on this host of the job that PID belongs to")
    parser.add_argument("--here", action="store_true", help="for a Slurm job: show only the ranks of this node")


def run(args: argparse.Namespace) -> int:
    """Run `weft attach`: print, or write to a file, where each rank of a job is, and return the exit status."""
    if args.interval < 0:
        raise UsageError(f"--interval {args.interval:g}: not a number of seconds; write 0 or more (0 looks once)")
    if args.core and args.what:
        raise UsageError("--core shows ranks that have ended: leave out the process or job")
    if args.program and not args.core:
        raise UsageError("--program needs --core: Weft finds the program of a running process itself")
    if args.output is not None and args.output.exists():  # before the look: it would be lost
        raise UsageError(f"{args.output} exists: delete it, or name another file")
    with ExitStack() as held:  # until the text is made: ranks that poll leave little of the processors
        job = look_at_job(args, held)
        text = FORMS[args.format](job, args.all)
        priority.raise_priority()  # what is left are moments
    if args.output is None:
        print(text, flush=True)
    else:
        # Who wants no file waits for no picture.
        from weft.picture.svg_base import write_new_file

        write_new_file(args.output, text + "\n")
    return 0 if any(one.threads for one in job.ranks) or args.here else 4


def look_at_job(args: argparse.Namespace, resources: ExitStack) -> Job:
    """Return the job that the arguments mean, with the stacks of its ranks at one or two moments."""
    if args.core:
        priority.restore_priority()
        return look_at_core_files(args.core, args.program)
    elsewhere = not args.here and len(args.what) == 1 and not is_process(args.what[0])
    if elsewhere:
        priority.restore_priority()
        if job := look_at_slurm_job(args.what[0], args.interval):
            return job
    # What needs numpy comes once the ranks stand still.
    ranks, still = stop_ranks(args, resources)
    priority.restore_priority()
    from weft.attach.reader import started_readers

    gdbs = resources.enter_context(
        started_readers([one.pid for one in ranks if not one.python and one.pid in still.pids])
    )
    from weft.native.threads import import_numpy_single_threaded

    import_numpy_single_threaded()
    from weft.attach.model import Job
    from weft.attach.rank_stacks import look_at_ranks

    size = max([len(ranks), *(process.size for process in ranks)])
    notes = (
        []
        if all(process.job for process in ranks)
        else ["Weft numbered these ranks itself: their launcher's numbers are unknown"]
    )
    return Job(size, args.interval, look_at_ranks(ranks, args.interval, still, gdbs), notes)


def stop_ranks(args: argparse.Namespace, resources: ExitStack) -> tuple[list[RankProcess], Standing]:
    """Stop the ranks that the arguments mean; return them, and the object that lets them continue."""
    from weft.attach import processes
    from weft.attach.hold import stopped

    still: Standing | None = None
    if args.here:
        name, _, step = args.what[0].partition(".")
        ranks = processes.find_slurm_ranks(name, step, os.environ.get("SLURMD_NODENAME", ""))
    elif args.what:
        pids = [parse_pid(word) for word in args.what]
        # Which of them are ranks is asked once they stand: beside ranks that poll it would take long.
        still = resources.enter_context(stopped(processes.find_processes_below(pids)))
        ranks = (processes.find_ranks_of_same_jobs if args.job else processes.find_named_ranks)(pids)
    else:
        ranks = processes.find_only_job()
    meant = [process.pid for process in ranks]
    if still is None or not still.keep(meant):
        if still is not None:
            still.release_all()
        still = resources.enter_context(stopped(meant))
    return ranks, still


def look_at_core_files(files: list[Path], program: str) -> Job:
    """Return a job of ranks that have ended, with the stacks that their core files hold."""
    from weft.attach import core_stacks

    return core_stacks.look_at_cores(files, program)


def look_at_slurm_job(word: str, interval: float) -> Job | None:
    """Return a job of Slurm with the stacks of its ranks on all nodes; None if the word does not name a job."""
    from weft.attach import slurm_job

    return slurm_job.look_at_job(word, interval) if slurm_job.is_running_slurm_job(word) else None


def is_process(word: str) -> bool:
    """Return whether a word is the number of a process of this host."""
    return word.isdigit() and Path(f"/proc/{word}").exists()


def parse_pid(word: str) -> int:
    """Return the process number in a word. UsageError if it is not one."""
    if not word.isdigit() or int(word) < 1:
        raise UsageError(f"{word} is neither a process on this host nor a running job of Slurm")
    return int(word)


def render_dict(job: Job) -> dict[str, Any]:
    """Return the job as weft-stacks/1, for programs."""
    from weft.attach import sentences, tree
    from weft.attach.slurm_job import SCHEMA

    return {
        "schema": SCHEMA,
        "size": job.size,
        "interval": job.interval,
        "missing": job.missing,
        "ended": job.ended,
        "proof": False,
        "told": sentences.describe_job(job),
        "groups": [group.as_dict() for group in sentences.group_ranks(job.ranks)],
        "moved": [one.rank for one in job.ranks if one.threads and one.later and sentences.describe_change(one)],
        "tree": tree.merge_stacks(job.ranks).as_dict(),
        "ranks": [one.as_dict() for one in job.ranks],
    }


def render_json(job: Job, every: bool) -> str:
    """Return the job as JSON in one line, always with all frames."""
    del every
    return json.dumps(render_dict(job))


def render_svg(job: Job, every: bool) -> str:
    """Return the tree as SVG. `every`: with the frames inside MPI."""
    from weft.attach.picture import draw_tree

    return draw_tree(job, with_mpi_frames=every)


def render_text(job: Job, every: bool) -> str:
    """Return the sentences, then the tree. `every`: with the frames inside MPI."""
    from weft.attach import sentences, tree
    from weft.base.words import printable

    said = [f"weft: {line}" for line in (sentences.render_headline(job), *sentences.describe_job(job))]
    return "\n".join(
        map(printable, [*said, "", *tree.render_tree(tree.merge_stacks(job.ranks, with_mpi_frames=every))])
    )


FORMS = {"text": render_text, "json": render_json, "svg": render_svg}
