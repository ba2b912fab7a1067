"""Weft beside other recorders of MPI: the same loops and one application, taken in turn.

    python benchmarks/peers.py                        # EZTrace, if it is installed (Debian: apt install eztrace)
    python benchmarks/peers.py --eztrace FOLDER                 # the unpacked packages eztrace and libeztrace0
    python benchmarks/peers.py --mpip LIB --dumpi LIB --rempi LIB --pilgrim LIB   # libraries that you built
    python benchmarks/peers.py --calls 30000 --repeat 3 --application "./lulesh -s 10" --write

All run with Debian's MPICH, one process that sends messages to itself: nothing waits, so the figures are what the tools
cost. Times are processor time, the least of the repetitions. The other tools are preloaded as their manuals say.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
WEFT = [sys.executable, "-m", "weft"]
LOOPS = {
    "named": ("Irecv, Send, Wait", 3),
    "wildcard": ("Isend, Recv any source, Wait", 3),
    "comm_rank": ("Comm_rank", 1),
}


@dataclass
class Peer:
    """A tool: how a program is started under it, the variables that it takes, and what it says at its end.

    `answers`: the words that give its first answer; as a rule the recording itself. `{out}` is where it writes.
    """

    name: str
    says: str
    start: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)


def find_peers(args: argparse.Namespace) -> Iterator[Peer]:
    """The tools that are there, plain execution first."""
    yield Peer("plain", "")
    weft = [*WEFT, "run", "--no-report", "--out", "{out}", "-n", "1"]
    yield Peer("Weft", "findings, each call, replay, debugger", [*weft, "--"], answers=[*WEFT, "report", "{out}"])
    yield Peer("Weft, `outcomes`", "replay, debugger", [*weft, "--level", "outcomes", "--"])
    folder = Path(args.eztrace or "/")
    eztrace = folder / "usr/lib/x86_64-linux-gnu"
    if (eztrace / "libeztrace-mpich.so").exists():
        libraries = ":".join(str(eztrace / f"libeztrace-{part}.so") for part in ("core", "lib", "mpich"))
        yield Peer("EZTrace", "each call (OTF2), for viewers", variables={
            "LD_PRELOAD": libraries, "LD_LIBRARY_PATH": str(eztrace), "EZTRACE_LIBRARY_PATH": str(eztrace),
            "EZTRACE_TRACE": "mpich", "EZTRACE_TRACE_DIR": "{out}",
        })  # fmt: skip
    for name, library, says in (
        ("mpiP", args.mpip, "times and bytes of each line"), ("DUMPI", args.dumpi, "each call, for simulators"),
        ("ReMPI", args.rempi, "replay of receives"), ("Pilgrim", args.pilgrim, "each call, compressed"),
    ):  # fmt: skip
        if library:
            yield Peer(name, says, variables={"LD_PRELOAD": library, "REMPI_DIR": "{out}", "REMPI_MODE": "0"})


def execute(peer: Peer, program: list[str], out: Path) -> tuple[float, str]:
    """Run a program under a tool in an empty folder; returns the processor seconds of all, and its output."""
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    words = [word.format(out=out) for word in peer.start] + program
    variables = {name: value.format(out=out) for name, value in peer.variables.items()}
    if peer.variables:
        out.mkdir()
    return spend(words, variables, out.parent)


def spend(words: list[str], variables: dict[str, str], folder: Path) -> tuple[float, str]:
    """Processor seconds of a command and its children, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        words, env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"`{shlex.join(words)}` failed with status {done.returncode}:\n{done.stderr[-2000:]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def disk(folder: Path) -> int:
    """Bytes of all files below a folder; of Weft's the records, without what it says of sources and lines."""
    if (folder / "ranks").is_dir():
        folder = folder / "ranks"
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) if folder.exists() else 0


@dataclass
class Figures:
    """What was measured of a tool: `loops` in ns a call, `bytes` a call of the first loop, the rest in seconds."""

    loops: dict[str, float]
    bytes: float
    process: float
    answer: float
    application: float


def measure(peers: list[Peer], loop: Path, args: argparse.Namespace, folder: Path) -> dict[str, Figures]:
    """Measure all tools in turn."""
    best: dict[tuple[str, str], float] = {}
    sizes: dict[str, float] = {}

    def keep(peer: Peer, what: str, value: float) -> None:
        best[peer.name, what] = min(value, best.get((peer.name, what), value))

    application = shlex.split(args.application) if args.application else [str(loop.with_name("stencil")), "200", "50"]
    for _ in range(args.repeat):
        for peer in peers:
            out = folder / "made" / peer.name.replace(" ", "").replace("`", "")
            keep(peer, "process", execute(peer, [str(loop), "named", "1"], out)[0])
            small = disk(out)
            keep(peer, "application", execute(peer, application, out)[0])
            for kind, (_, calls) in LOOPS.items():
                turns = args.calls // calls
                seconds, printed = execute(peer, [str(loop), kind, str(turns)], out)
                keep(peer, kind, float(printed.split()[0]) / turns / calls)
                if kind == "named":
                    sizes[peer.name] = max(0, disk(out) - small) / (turns - 1) / calls
                    more = [word.format(out=out) for word in peer.answers]
                    keep(peer, "answer", seconds + (spend(more, {}, folder)[0] if more else 0))
    return {
        peer.name: Figures(
            {kind: best[peer.name, kind] for kind in LOOPS}, sizes[peer.name],
            *(best[peer.name, what] for what in ("process", "answer", "application")),
        )
        for peer in peers
    }  # fmt: skip


def render(peers: list[Peer], found: dict[str, Figures]) -> list[str]:
    """The table, in Markdown: what each tool adds to the plain program."""
    plain = found["plain"]
    heads = ["tool", *(f"{name}, ns a call" for name, _ in LOOPS.values()), "bytes a call", "a process, s",
             "first answer, s", "application, s", "what it then has"]  # fmt: skip
    rows = [heads, ["---"] * len(heads)]
    for peer in peers:
        of = found[peer.name]
        added = 0 if peer.name == "plain" else 1
        rows.append([
            peer.name, *(f"{of.loops[kind] - added * plain.loops[kind]:.0f}" for kind in LOOPS), f"{of.bytes:.1f}",
            f"{of.process - added * plain.process:.2f}", f"{of.answer - added * plain.answer:.2f}",
            f"{of.application - added * plain.application:.2f}", peer.says,
        ])  # fmt: skip
    return [f"| {' | '.join(row)} |" for row in rows]


def main() -> None:
    """Print the table, and write it into the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for tool in ("eztrace", "mpip", "dumpi", "rempi", "pilgrim"):
        parser.add_argument(f"--{tool}", metavar="FOLDER" if tool == "eztrace" else "LIB")
    parser.add_argument("--calls", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--application", help="a command, instead of benchmarks/programs/stencil.c")
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.name}")
    args = parser.parse_args()
    mpicc = shutil.which("mpicc.mpich")
    if mpicc is None:
        raise SystemExit("Debian's mpicc.mpich is missing: apt install libmpich-dev")
    peers = list(find_peers(args))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for program in ("loop", "stencil"):
            subprocess.run([mpicc, "-O2", "-o", folder / program, HERE / "programs" / f"{program}.c"], check=True)
        table = render(peers, measure(peers, folder / "loop", args, folder))
    print("\n".join(table))
    if args.write:
        head, _, rest = PAGE.read_text().partition("<!-- peers -->\n")
        _, end, rest = rest.partition("<!-- /peers -->")
        PAGE.write_text(f"{head}<!-- peers -->\n" + "\n".join(table) + f"\n{end}{rest}")


if __name__ == "__main__":
    main()
