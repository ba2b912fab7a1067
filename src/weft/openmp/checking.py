"""One run of an OpenMP program under the simulated runtime, and what its lines mean."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.base.facts import changed
from weft.base.words import plural, rank_words
from weft.dataparallel.front_end import Outcome, Request
from weft.dataparallel.grouped import times
from weft.dataparallel.lines import read_lines
from weft.dataparallel.looked import shown
from weft.dataparallel.program import execute
from weft.dataparallel.sentences import NO_ROOM
from weft.dataparallel.texts import AccessPlace, Texts
from weft.debuginfo.addr2line import addr2line
from weft.errors import WeftError
from weft.evidence import CheckCase, Evidence, Line, Loop, Pair
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.openmp import copies, privates, reductions, sentences
from weft.openmp.directives import Directive
from weft.openmp.names import NOWHERE, Named, Names, behind_atomic, is_fortran, line_of, single_of
from weft.openmp.program import Built, build
from weft.openmp.sources import constructs, language, one_memory

LOOPS: Final = frozenset(("for", "do", "sections", "taskloop", "simd", "loop", "distribute"))
OUTLINED: Final = re.compile(r"(?:_| \[clone )?\._omp_fn\.\d+.*")
"""What the compiler adds to the name of a function whose construct it makes a function of its own."""


@dataclass(slots=True)
class Lines:
    """What the runtime wrote."""

    base: int = 0
    rank: int = 0
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    places: int = 0
    ran: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[int, int] = field(default_factory=dict)
    """Lines of the calls that begin loops, which have none in the debugging information."""


@dataclass(frozen=True, slots=True)
class Process:
    """What one process of the program told, and the place of each of its program counters."""

    lines: Lines
    places: dict[int, AccessPlace]

    def at(self, pc: int) -> AccessPlace:
        """The line of a program counter."""
        return self.places.get(pc, NOWHERE)


def run(request: Request, folder: Path, found: Path) -> Outcome:
    """Compile, run, read."""
    began = time.perf_counter()
    built = build(request, folder)
    preparing = time.perf_counter() - began
    outcome = judged(built, request, folder, found)
    return dataclasses.replace(outcome, ended=dataclasses.replace(outcome.ended, preparing=preparing))


def judged(built: Built, request: Request, folder: Path, found: Path) -> Outcome:
    """One run of a program that was built, and what it shows."""
    for one in folder.glob("openmp*.jsonl"):
        one.unlink()
    told = folder / ("openmp-%p.jsonl" if request.launcher else "openmp.jsonl")
    ended = execute(built.path, request.arguments, told, request.grid, request.timeout, launcher=request.launcher)
    processes = [
        Process(lines, placed(built.path, lines))
        for lines in sorted(map(read, folder.glob("openmp*.jsonl")), key=lambda one: one.rank)
    ]
    sources = (*request.sources, *headers(processes, request.sources))
    for process in processes:
        align(process.places, process.lines, sources)
    texts = Texts("fortran" if all(language(one) == "fortran" for one in request.sources) else "c")
    looked(sources, processes, texts, found)
    findings = of_all([list(found_in(process, built.path, sources)) for process in processes])
    left = list(unseen(sources, processes))
    kept = [(str(source), line) for source, line in built.kept]
    kept += [(str(source), line) for source in request.sources for line, one in constructs(source) if one.scans]
    if kept:
        left.append(sentences.KEPT.format(at=shown(kept)))
    return Outcome(ended, texts, findings, tuple(left))


def found_in(process: Process, program: Path, sources: Sequence[Path]) -> Iterator[Finding]:
    """What one process found, at its rank."""
    names = Names(program, process.lines.base)
    try:
        found = list(Reading(process.lines, process.places, names, private(sources)).findings())
    finally:
        names.close()
    for one in (*found, *misdeclared(sources, process.lines, process.places)):
        yield dataclasses.replace(
            one, sites=tuple(dataclasses.replace(site, rank=process.lines.rank) for site in one.sites)
        )


class Processes(Evidence):
    """The ranks of the processes in which it was found."""

    ranks: Sequence[int]


def of_all(processes: Sequence[Sequence[Finding]]) -> tuple[Finding, ...]:
    """The findings of all processes: what several found at the same places is one, and says on which ranks."""
    if len(processes) == 1:
        return tuple(processes[0])
    known: dict[object, list[Finding]] = defaultdict(list)
    for one in (one for found in processes for one in found):
        places = tuple((site.call, site.file, site.line) for site in one.sites)
        variable = one.evidence.variable if isinstance(one.evidence, CheckCase) else None
        known[one.kind, variable, places].append(one)
    return tuple(at_ranks(found, len(processes)) for found in known.values())


def at_ranks(found: Sequence[Finding], many: int) -> Finding:
    """The first of findings at the same places, with the ranks of all of them."""
    numbers = sorted({site.rank for one in found for site in one.sites[:1]})
    said = f"all {many} ranks" if len(numbers) == many else rank_words(numbers)
    case = found[0].evidence
    return dataclasses.replace(
        found[0],
        message=f"{found[0].message}, on {said}",
        evidence=changed(case, ranks=numbers) if isinstance(case, CheckCase) else Processes(ranks=numbers),
    )


def _loop(kind: str, at: AccessPlace) -> Loop | None:
    """A construct whose line is known."""
    return Loop(kind=kind, file=at.file, line=at.line, text="") if at.line else None


def misdeclared(sources: Sequence[Path], lines: Lines, places: Mapping[int, AccessPlace]) -> Iterator[Finding]:
    """The reductions of loops that ran whose operation is not what the loop does."""
    ran: dict[tuple[str, int], int] = defaultdict(int)
    for held in lines.ran:
        place = places.get(held["pc"], NOWHERE)
        ran[place.file, place.line] += held["iterations"]
    for source in sources:
        file = str(source.absolute())
        for one in reductions.wrong(source):
            if ran.get((file, one.directive), 0) > 0 or (not one.loop and (file, one.directive) in ran):
                yield Finding(
                    kind="wrong-reduction", severity=KINDS["wrong-reduction"].severity, certainty="certain",
                    message=sentences.reduction(one.name, one.declared, one.does, one.loop),
                    sites=(Site(0, "update", file, one.line, ""), Site(0, "directive", file, one.directive, "")),
                    evidence=CheckCase(case="operation", count=1, variable=one.name),
                )  # fmt: skip


def private(sources: Sequence[Path]) -> set[tuple[str, str]]:
    """The variables that some directive of a file makes private, with the file."""
    return {
        (str(source.absolute()), name)
        for source in sources for _, one in constructs(source) for name in privates.names(one)
    }  # fmt: skip


def read(path: Path) -> Lines:
    """The runtime's lines. WeftError where it could not begin."""
    lines = Lines()
    for held in read_lines(path):
        if "base" in held:
            lines.base, lines.rank = held["base"], held["rank"]
        elif "places" in held:
            lines.places = held["places"]
        elif "place" in held:
            lines.lines[held["place"]] = held["line"]
        elif "construct" in held:
            lines.ran.append(held)
        elif "count" in held:
            lines.counts[held["id"]] = held["count"]
        elif held.get("kind") == "usage":
            raise WeftError(NO_ROOM)
        elif "kind" in held:
            lines.records[held["id"]] = held
    return lines


def placed(program: Path, lines: Lines) -> dict[int, AccessPlace]:
    """The place of every program counter."""
    counters = {held["pc"] for held in (*lines.records.values(), *lines.ran)}
    for held in lines.records.values():
        counters.update(held.get(key, 0) for key in ("other_pc", "region_pc"))
        counters.update(held[key]["pc"] for key in ("strand", "other") if key in held)
    counters.discard(0)
    found = addr2line(str(program), sorted(pc - lines.base for pc in counters), [])
    places: dict[int, AccessPlace] = {}
    for offset, frames in found.items():
        file, line, function = next((one for one in frames if not in_system(one[0])), frames[0])
        pc = int(offset) + lines.base
        number = lines.lines.get(pc) or behind_atomic(file or "", line)
        places[pc] = AccessPlace(str(Path(file)) if file else "", number, 0, OUTLINED.sub("", function or ""))
    return places


def headers(processes: Sequence[Process], sources: Sequence[Path]) -> list[Path]:
    """Files that the sources include and whose directives ran."""
    known = {str(source.absolute()) for source in sources}
    files = {file for one in processes for held in one.lines.ran if (file := one.at(held["pc"]).file)} - known
    here = Path.cwd()
    paths = [Path(file) for file in sorted(files) if not in_system(file) and Path(file).is_file()]
    return [path.relative_to(here) if path.is_relative_to(here) else path for path in paths]


def unseen(sources: Sequence[Path], processes: Sequence[Process]) -> Iterator[str]:
    """What the run did not look at, a phrase each."""

    def at(places: Iterable[AccessPlace]) -> str:
        return shown(sorted({(one.file, one.line) for one in places if one.line}))

    ran = [(held["construct"], one.at(held["pc"])) for one in processes for held in one.lines.ran]
    teams = {place for construct, place in ran if construct in ("region", "teams")}
    lanes = {(str(source.absolute()), line) for source in sources for line, one in constructs(source) if one.lanes}
    alone = {place for construct, place in ran if construct == "alone" and (place.file, place.line) not in lanes}
    if alone := alone - teams:
        yield f"{plural(len(alone), 'region')} that the program ran with one thread ({at(alone)})"
    yield from dict.fromkeys(
        sentences.LEFT[held["why"]].format(at=at([one.at(held["pc"])]))
        for one in processes for held in one.lines.records.values() if held["kind"] == "left"
    )  # fmt: skip
    if shared := [str(source) for source in sources if one_memory(source)]:
        yield sentences.ONE_MEMORY.format(at=", ".join(shared))


def in_system(file: str | None) -> bool:
    """Whether a frame is a header's of the compiler or the system: who called it is told."""
    return file is None or file.startswith(("/usr/include/", "/usr/lib/"))


def align(places: dict[int, AccessPlace], lines: Lines, sources: Sequence[Path]) -> None:
    """Sections and single blocks at their directives: the compiler gives their calls the line of what stands before."""
    known = {str(source.absolute()): list(constructs(source)) for source in sources}
    for held in lines.ran:
        pc, word = held["pc"], "single" if held["construct"] == "single" else "sections"
        place = places.get(pc, NOWHERE)
        if pc in lines.lines or held["construct"] not in ("single", "loop"):
            continue
        found = [line for line, directive in known.get(place.file, ()) if line >= place.line and word in directive.head]
        if found:
            places[pc] = dataclasses.replace(place, line=found[0])


def looked(sources: Sequence[Path], processes: Sequence[Process], texts: Texts, found: Path) -> None:
    """The program's constructs as texts, and in `found` how often each ran."""
    counts: dict[tuple[str, int], list[int]] = {}
    for place, held in ((process.at(held["pc"]), held) for process in processes for held in process.lines.ran):
        one = counts.setdefault((place.file, place.line), [0, 0])
        if held["construct"] == "loop" or not one[1]:
            one[0] = max(one[0], held["times"])
        one[1] += held["iterations"]
    with found.open("w", encoding="utf-8") as file:
        print(json.dumps({"places": max((one.lines.places for one in processes), default=0)}), file=file)
        for source in sources:
            for line, directive in constructs(source):
                if directive.head[0] == "end":
                    continue
                loop = bool(LOOPS & set(directive.head)) and "declare" not in directive.head
                region = {"parallel", "teams"} & set(directive.head) or is_target(directive)
                kind = "parallel" if loop else "region" if region else directive.head[0]
                number = texts.construct(kind, str(source), line, text=said(directive, source))
                ran = counts.get((str(source.absolute()), line))
                if ran:
                    print(json.dumps({"ran": number, "times": ran[0], "iterations": ran[1]}), file=file)


def is_target(directive: Directive) -> bool:
    """Whether it is a target region, or copies between host and device."""
    return "target" in directive.head and "declare" not in directive.head


def said(directive: Directive, source: Path) -> str:
    """The directive as the program has it."""
    return ("!$omp " if language(source) == "fortran" else "#pragma omp ") + str(directive)


@dataclass(slots=True)
class Race:
    """A pair of places, with the names of its memory."""

    held: dict[str, Any]
    count: int
    named: Named
    place: AccessPlace
    other: AccessPlace
    fortran: bool

    @property
    def cause(self) -> object:
        """What races of one cause have in common."""
        at = self.held["other" if self.held["strand"]["what"] == "host" else "strand"]["pc"]
        if self.named.name:
            return (self.named.name, self.named.line, at)
        block = self.held.get("block")
        return (at, block["low"] if block else self.held["address"])

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """A place that both write, or that is written and read in one line, comes last."""
        return (not self.named.index, self.held["write"] and self.held["other_write"], self.held["id"])


class Reading:
    """From the runtime's lines to findings."""

    def __init__(
        self, lines: Lines, places: Mapping[int, AccessPlace], names: Names, private: Collection[tuple[str, str]]
    ) -> None:
        self.lines, self.places, self.names, self.private = lines, places, names, private

    def place(self, pc: int) -> AccessPlace:
        """The line of a program counter."""
        return self.places.get(pc, NOWHERE)

    def findings(self) -> Iterator[Finding]:
        """One finding for each cause."""
        causes: dict[object, list[Race]] = defaultdict(list)
        copied: list[tuple[dict[str, Any], int]] = []
        for id, held in self.lines.records.items():
            if held["kind"] == "data-race":
                race = self._race(held, self.lines.counts.get(id, 1))
                causes[race.cause].append(race)
            elif held["kind"] == "valueless":
                yield from self._valueless(held, self.lines.counts.get(id, 1))
            elif held["kind"] in copies.KINDS_OF:
                copied.append((held, self.lines.counts.get(id, 1)))
            elif held["kind"] != "left":
                yield from self._plain(held)
        yield from copies.findings(copied, self.places, self.names)
        for races in causes.values():
            yield self._told(sorted(races, key=lambda one: one.rank))

    def _valueless(self, held: dict[str, Any], count: int) -> Iterator[Finding]:
        place = self.place(held["pc"])
        fortran = is_fortran(place)
        named = self.names.of(held, ((place, False), (place, False)), fortran)
        text = line_of(place)
        known = [named.name, *(name for file, name in sorted(self.private) if re.search(rf"\b{name}\b", text))]
        name = next((one for one in known if (place.file, one) in self.private), "")
        if not name:  # what once was private, and is another function's now
            return
        at = self.place(held["strand"]["pc"])
        message = sentences.valueless(name, sentences.who(held["strand"], at))
        evidence = CheckCase(case="private", count=count, variable=name, loop=_loop(held["strand"]["what"], at))
        yield Finding(
            kind="uninitialised-read", severity=KINDS["uninitialised-read"].severity, certainty="certain",
            message=message + times(count), evidence=evidence,
            sites=(Site(0, "read", place.file, place.line, place.function),),
        )  # fmt: skip

    def _race(self, held: dict[str, Any], count: int) -> Race:
        place, other = self.place(held["pc"]), self.place(held["other_pc"])
        fortran = is_fortran(place)
        places = [
            (self.names.with_column(one, held[pc]), held[write])
            for one, pc, write in ((place, "pc", "write"), (other, "other_pc", "other_write"))
        ]
        if "copy" in (held["strand"]["what"], held["other"]["what"]):  # its line is the directive's, with many names
            places = places[:1] if held["other"]["what"] == "copy" else places[1:]
        named = self.names.of(held, places, fortran)
        return Race(held, count, named, place, other, fortran)

    def _construct(self, strand: Mapping[str, Any], access: AccessPlace) -> AccessPlace:
        """Where the directive of a strand stands that accesses memory."""
        at = self.place(strand["pc"])
        return single_of(at, access) if strand["what"] == "single" else at

    def _told(self, races: Sequence[Race]) -> Finding:
        first = races[0]
        held, named = first.held, first.named
        one = sentences.who(held["strand"], self._construct(held["strand"], first.place))
        two = sentences.who(held["other"], self._construct(held["other"], first.other))
        count = sum(race.count for race in races)
        pairs = {(race.place.line, race.other.line): race.held for race in races}
        said = sentences.race(named, (one, two), held, first.other, first.fortran)
        said += (
            sentences.unawaited(held)
            or sentences.advice(named, pairs, first.place, first.fortran)
            or sentences.nowait(held)
        )
        loop = self.place(held["strand"]["pc"])
        evidence = CheckCase(
            case="race", count=count, variable=named.name,
            pairs=[
                Pair(file=race.place.file, line=race.place.line, write=race.held["write"],
                     other_file=race.other.file, other_line=race.other.line, other_write=race.held["other_write"],
                     count=race.count)
                for race in races
            ],
            index=named.index or None,
            declared=Line(file=first.place.file, line=named.line) if named.line else None,
            loop=_loop(held["strand"]["what"], loop),
        )  # fmt: skip
        return Finding(
            kind="data-race", severity=KINDS["data-race"].severity, certainty="certain", message=said + times(count),
            sites=tuple(dict.fromkeys(site for race in races for site in sites(race))), evidence=evidence,
        )  # fmt: skip

    def _plain(self, held: Mapping[str, Any]) -> Iterator[Finding]:
        place, other = self.place(held["pc"]), self.place(held["other_pc"])
        both = (held["pc"], held["other_pc"])
        if held["kind"] == "barrier":
            if place.line == other.line and place.file == other.file:
                return
            yield plain("missed-barrier", sentences.barrier(held["why"], other), (place, other), "barrier")
        elif held["kind"] == "lock-order":
            yield plain("potential-deadlock", sentences.lock_order(other), (place, other), "lock")
        elif held["kind"] == "deadlock":
            yield plain("deadlock", sentences.deadlock(other if both[1] else NOWHERE), (place, other), "waits")


def plain(kind: str, message: str, places: Sequence[AccessPlace], call: str) -> Finding:
    """A finding that is about no data."""
    found = tuple(Site(0, call, one.file, one.line, one.function) for one in places if one.line)
    certainty = KINDS[kind].certainty
    return Finding(kind=kind, severity=KINDS[kind].severity, certainty=certainty, message=message, sites=found)


def sites(race: Race) -> Iterator[Site]:
    """Both accesses."""
    for place, write in ((race.place, race.held["write"]), (race.other, race.held["other_write"])):
        yield Site(0, "write" if write else "read", place.file, place.line, place.function)
