"""One run of an OpenMP program under the simulated runtime, and what its lines mean."""

from __future__ import annotations

import dataclasses
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.base.facts import changed
from weft.base.words import plural, rank_words
from weft.dataparallel import runtime_output
from weft.dataparallel.front_end import Outcome, Request
from weft.dataparallel.grouping import times
from weft.dataparallel.runtime_output import Told
from weft.dataparallel.check_coverage import shown
from weft.dataparallel.program import execute
from weft.dataparallel.raw_findings import NOWHERE
from weft.dataparallel.messages import NO_ROOM
from weft.dataparallel.source_map import AccessPlace, Texts
from weft.errors import WeftError
from weft.evidence import CheckCase, Evidence, Line, Loop, Pair
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.openmp import device_copies, private_variables, reductions, messages
from weft.openmp.directives import OpenMPDirective
from weft.openmp.variable_names import Names, behind_atomic, is_fortran, line_of, single_of
from weft.openmp.build import Built, build
from weft.openmp.raw_findings import Access, NamedElement, RawOpenMPFinding, Strand, collect_program_counters, parse_findings
from weft.openmp.source_rewriting import constructs, language, one_memory

LOOPS: Final = frozenset(("for", "do", "sections", "taskloop", "simd", "loop", "distribute"))
OUTLINED: Final = re.compile(r"(?:_| \[clone )?\._omp_fn\.\d+.*")
"""What the compiler adds to the name of a function whose construct it makes a function of its own."""


@dataclass(frozen=True, slots=True)
class RawConstructRun:
    """A construct that ran."""

    kind: str
    pc: int
    times: int
    iterations: int


@dataclass(frozen=True, slots=True)
class CheckedProcess:
    """What one process of the program told, and the place of each of its program counters."""

    told: Told
    ran: list[RawConstructRun]
    places: dict[int, AccessPlace]

    def construct_place(self, ran: RawConstructRun) -> AccessPlace:
        """The line of a construct."""
        return self.places.get(ran.pc, NOWHERE)


def check_program(request: Request, folder: Path) -> Outcome:
    """Compile, run, read."""
    began = time.perf_counter()
    built = build(request, folder)
    preparing = time.perf_counter() - began
    outcome = check_built_program(built, request, folder)
    return dataclasses.replace(outcome, ended=dataclasses.replace(outcome.ended, preparing=preparing))


def check_built_program(built: Built, request: Request, folder: Path) -> Outcome:
    """One run of a program that was built, and what it shows."""
    for one in folder.glob("openmp*.jsonl"):
        one.unlink()
    told = folder / ("openmp-%p.jsonl" if request.launcher else "openmp.jsonl")
    ended = execute(built.path, request.arguments, told, request.grid, request.timeout, launcher=request.launcher)
    processes = sorted(map(read_process_output, folder.glob("openmp*.jsonl")), key=lambda one: one.told.rank)
    sources = (*request.sources, *find_included_files(processes, request.sources))
    for process in processes:
        align_construct_lines(process, sources)
    texts = Texts("fortran" if all(language(one) == "fortran" for one in request.sources) else "c")
    ran = count_construct_runs(sources, processes, texts)
    findings = merge_process_findings([list(collect_process_findings(process, built.path, sources)) for process in processes])
    left = list(describe_unchecked(sources, processes))
    kept = [(str(source), line) for source, line in built.kept]
    kept += [(str(source), line) for source in request.sources for line, one in constructs(source) if one.scans]
    if kept:
        left.append(messages.KEPT.format(at=shown(kept)))
    return Outcome(ended, texts, findings, tuple(left), told=ran)


def collect_process_findings(process: CheckedProcess, program: Path, sources: Sequence[Path]) -> Iterator[Finding]:
    """What one process found, at its rank."""
    names = Names(program, process.told.base)
    try:
        found = list(make_findings(parse_findings(process.told, process.places), names, collect_private_variables(sources)))
    finally:
        names.close()
    rank = process.told.rank
    for one in (*found, *find_wrong_reductions(sources, process)):
        yield dataclasses.replace(one, sites=tuple(dataclasses.replace(site, rank=rank) for site in one.sites))


class Processes(Evidence):
    """The ranks of the processes in which it was found."""

    ranks: Sequence[int]


def merge_process_findings(processes: Sequence[Sequence[Finding]]) -> tuple[Finding, ...]:
    """The findings of all processes: what several found at the same places is one, and says on which ranks."""
    if len(processes) == 1:
        return tuple(processes[0])
    known: dict[object, list[Finding]] = defaultdict(list)
    for one in (one for found in processes for one in found):
        places = tuple((site.call, site.file, site.line) for site in one.sites)
        variable = one.evidence.variable if isinstance(one.evidence, CheckCase) else None
        known[one.kind, variable, places].append(one)
    return tuple(merge_across_ranks(found, len(processes)) for found in known.values())


def merge_across_ranks(found: Sequence[Finding], many: int) -> Finding:
    """The first of findings at the same places, with the ranks of all of them."""
    numbers = sorted({site.rank for one in found for site in one.sites[:1]})
    said = f"all {many} ranks" if len(numbers) == many else rank_words(numbers)
    case = found[0].evidence
    return dataclasses.replace(
        found[0],
        message=f"{found[0].message}, on {said}",
        evidence=changed(case, ranks=numbers) if isinstance(case, CheckCase) else Processes(ranks=numbers),
    )


def _loop(strand: Strand) -> Loop | None:
    """The construct of a strand, where its line is known."""
    at = strand.at
    return Loop(kind=strand.what, file=at.file, line=at.line, text="") if at.line else None


def find_wrong_reductions(sources: Sequence[Path], process: CheckedProcess) -> Iterator[Finding]:
    """The reductions of loops that ran whose operation is not what the loop does."""
    ran: dict[tuple[str, int], int] = defaultdict(int)
    for one in process.ran:
        place = process.at(one)
        ran[place.file, place.line] += one.iterations
    for source in sources:
        file = str(source.absolute())
        for wrong in reductions.wrong(source):
            if ran.get((file, wrong.directive), 0) > 0 or (not wrong.loop and (file, wrong.directive) in ran):
                yield Finding(
                    kind="wrong-reduction", severity=KINDS["wrong-reduction"].severity, certainty="certain",
                    message=messages.describe_wrong_reduction(wrong.name, wrong.declared, wrong.does, wrong.loop),
                    sites=(Site(0, "update", file, wrong.line, ""), Site(0, "directive", file, wrong.directive, "")),
                    evidence=CheckCase(case="operation", count=1, variable=wrong.name),
                )  # fmt: skip


def collect_private_variables(sources: Sequence[Path]) -> set[tuple[str, str]]:
    """The variables that some directive of a file makes private, with the file."""
    return {
        (str(source.absolute()), name)
        for source in sources for _, one in constructs(source) for name in private_variables.names(one)
    }  # fmt: skip


def read_process_output(path: Path) -> CheckedProcess:
    """What a process told. WeftError where it could not begin."""
    told = runtime_output.read(path)
    if told.usage is not None:
        raise WeftError(NO_ROOM)
    places: dict[int, AccessPlace] = {}
    for pc, frames in told.frames(collect_program_counters(told)).items():
        file, line, function = next((one for one in frames if not is_system_header(one[0])), frames[0])
        number = told.lines.get(pc) or behind_atomic(file or "", line)
        places[pc] = AccessPlace(str(Path(file)) if file else "", number, 0, OUTLINED.sub("", function or ""))
    ran = [RawConstructRun(one["construct"], one["pc"], one["times"], one["iterations"]) for one in told.constructs]
    return CheckedProcess(told, ran, places)


def find_included_files(processes: Sequence[CheckedProcess], sources: Sequence[Path]) -> list[Path]:
    """Files that the sources include and whose directives ran."""
    known = {str(source.absolute()) for source in sources}
    files = {file for one in processes for ran in one.ran if (file := one.at(ran).file)} - known
    here = Path.cwd()
    paths = [Path(file) for file in sorted(files) if not is_system_header(file) and Path(file).is_file()]
    return [path.relative_to(here) if path.is_relative_to(here) else path for path in paths]


def describe_unchecked(sources: Sequence[Path], processes: Sequence[CheckedProcess]) -> Iterator[str]:
    """What the run did not look at, a phrase each."""

    def at(places: Iterable[AccessPlace]) -> str:
        return shown(sorted({(one.file, one.line) for one in places if one.line}))

    ran = [(held.kind, one.at(held)) for one in processes for held in one.ran]
    teams = {place for construct, place in ran if construct in ("region", "teams")}
    lanes = {(str(source.absolute()), line) for source in sources for line, one in constructs(source) if one.lanes}
    alone = {place for construct, place in ran if construct == "alone" and (place.file, place.line) not in lanes}
    if alone := alone - teams:
        yield f"{plural(len(alone), 'region')} that the program ran with one thread ({at(alone)})"
    yield from dict.fromkeys(
        messages.LEFT[held.why].format(at=at([held.one.place]))
        for one in processes for held in parse_findings(one.told, one.places) if held.kind == "left"
    )  # fmt: skip
    if shared := [str(source) for source in sources if one_memory(source)]:
        yield messages.ONE_MEMORY.format(at=", ".join(shared))


def is_system_header(file: str | None) -> bool:
    """Whether a frame is a header's of the compiler or the system: who called it is told."""
    return file is None or file.startswith(("/usr/include/", "/usr/lib/"))


def align_construct_lines(process: CheckedProcess, sources: Sequence[Path]) -> None:
    """Sections and single blocks at their directives: the compiler gives their calls the line of what stands before."""
    known = {str(source.absolute()): list(constructs(source)) for source in sources}
    for one in process.ran:
        if one.pc in process.told.lines or one.kind not in ("single", "loop"):
            continue
        word, place = "single" if one.kind == "single" else "sections", process.at(one)
        found = [line for line, directive in known.get(place.file, ()) if line >= place.line and word in directive.head]
        if found:
            process.places[one.pc] = dataclasses.replace(place, line=found[0])


def count_construct_runs(sources: Sequence[Path], processes: Sequence[CheckedProcess], texts: Texts) -> Told:
    """The program's constructs as texts, and how often each ran."""
    counts: dict[tuple[str, int], list[int]] = {}
    for place, ran in ((process.at(one), one) for process in processes for one in process.ran):
        one = counts.setdefault((place.file, place.line), [0, 0])
        if ran.kind == "loop" or not one[1]:
            one[0] = max(one[0], ran.times)
        one[1] += ran.iterations
    told = Told(places=max((one.told.places for one in processes), default=0))
    for source in sources:
        for line, directive in constructs(source):
            if directive.head[0] == "end":
                continue
            loop = bool(LOOPS & set(directive.head)) and "declare" not in directive.head
            region = {"parallel", "teams"} & set(directive.head) or is_target_directive(directive)
            kind = "parallel" if loop else "region" if region else directive.head[0]
            number = texts.construct(kind, str(source), line, text=format_directive(directive, source))
            if (counted := counts.get((str(source.absolute()), line))) is not None:
                told.ran[number] = (counted[0], counted[1])
    return told


def is_target_directive(directive: OpenMPDirective) -> bool:
    """Whether it is a target region, or copies between host and device."""
    return "target" in directive.head and "declare" not in directive.head


def format_directive(directive: OpenMPDirective, source: Path) -> str:
    """The directive as the program has it."""
    return ("!$omp " if language(source) == "fortran" else "#pragma omp ") + str(directive)


def race_cause(race: RawOpenMPFinding) -> object:
    """What races of one cause have in common."""
    at = (race.other if race.one.strand.what == "host" else race.one).strand.pc
    if race.named.name:
        return (race.named.name, race.named.line, at)
    return (at, race.address if race.block is None else race.block)


def race_sort_key(race: RawOpenMPFinding) -> tuple[bool, bool, int]:
    """A place that both write, or that is written and read in one line, comes last."""
    return (not race.named.index, race.one.write and race.other.write, race.id)


def make_findings(records: Sequence[RawOpenMPFinding], names: Names, private: Collection[tuple[str, str]]) -> Iterator[Finding]:
    """One finding for each cause."""
    causes: dict[object, list[RawOpenMPFinding]] = defaultdict(list)
    for one in records:
        if one.kind == "data-race":
            one.named = name_raced_variable(one, names)
            causes[race_cause(one)].append(one)
        elif one.kind == "valueless":
            yield from _make_uninitialised_read(one, names, private)
        elif one.kind not in device_copies.KINDS_OF:
            yield from _make_sync_findings(one)
    yield from device_copies.make_copy_findings((one for one in records if one.kind in device_copies.KINDS_OF), names)
    for races in causes.values():
        yield _make_race_finding(sorted(races, key=race_sort_key))


def name_raced_variable(race: RawOpenMPFinding, names: Names) -> NamedElement:
    """What two accesses are of."""
    places = [(names.with_column(one), one.write) for one in (race.one, race.other)]
    if "copy" in (race.one.strand.what, race.other.strand.what):  # its line is the directive's, with many names
        places = places[:1] if race.other.strand.what == "copy" else places[1:]
    return names.of(race, places, is_fortran(race.one.place))


def _make_uninitialised_read(one: RawOpenMPFinding, names: Names, private: Collection[tuple[str, str]]) -> Iterator[Finding]:
    place, strand = one.one.place, one.one.strand
    text = line_of(place)
    known = [names.of(one, ((place, False), (place, False)), is_fortran(place)).name]
    known += [name for file, name in sorted(private) if re.search(rf"\b{name}\b", text)]
    name = next((one for one in known if (place.file, one) in private), "")
    if not name:  # what once was private, and is another function's now
        return
    message = messages.describe_uninitialised_read(name, messages.describe_strand(strand, strand.at))
    evidence = CheckCase(case="private", count=one.count, variable=name, loop=_loop(strand))
    yield Finding(
        kind="uninitialised-read", severity=KINDS["uninitialised-read"].severity, certainty="certain",
        message=message + times(one.count), evidence=evidence,
        sites=(Site(0, "read", place.file, place.line, place.function),),
    )  # fmt: skip


def _describe_access_strand(access: Access) -> str:
    """The strand of an access, at its directive."""
    strand = access.strand
    return messages.describe_strand(strand, single_of(strand.at, access.place) if strand.what == "single" else strand.at)


def _make_race_finding(races: Sequence[RawOpenMPFinding]) -> Finding:
    first = races[0]
    named, place = first.named, first.one.place
    fortran = is_fortran(place)
    count = sum(race.count for race in races)
    said = messages.describe_race(first, (_describe_access_strand(first.one), _describe_access_strand(first.other)), fortran)
    pairs = {(race.one.place.line, race.other.place.line): race for race in races}
    said += (
        messages.suggest_taskwait(first) or messages.suggest_clause(pairs.values(), named, place, fortran) or messages.suggest_static_schedule(first)
    )
    evidence = CheckCase(
        case="race", count=count, variable=named.name,
        pairs=[
            Pair(file=race.one.place.file, line=race.one.place.line, write=race.one.write,
                 other_file=race.other.place.file, other_line=race.other.place.line, other_write=race.other.write,
                 count=race.count)
            for race in races
        ],
        index=named.index or None,
        declared=Line(file=place.file, line=named.line) if named.line else None,
        loop=_loop(first.one.strand),
    )  # fmt: skip
    accesses = [access for race in races for access in (race.one, race.other)]
    sites = dict.fromkeys(Site(0, at.does, at.place.file, at.place.line, at.place.function) for at in accesses)
    return Finding(
        kind="data-race", severity=KINDS["data-race"].severity, certainty="certain", message=said + times(count),
        sites=tuple(sites), evidence=evidence,
    )  # fmt: skip


def _make_sync_findings(one: RawOpenMPFinding) -> Iterator[Finding]:
    place, other = one.one.place, one.other.place
    if one.kind == "barrier":
        if place.line == other.line and place.file == other.file:
            return
        yield make_sync_finding("missed-barrier", messages.describe_barrier(one.why, other), (place, other), "barrier")
    elif one.kind == "lock-order":
        yield make_sync_finding("potential-deadlock", messages.describe_lock_order(other), (place, other), "lock")
    elif one.kind == "deadlock":
        yield make_sync_finding("deadlock", messages.describe_deadlock(other), (place, other), "waits")


def make_sync_finding(kind: str, message: str, places: Sequence[AccessPlace], call: str) -> Finding:
    """A finding that is about no data."""
    found = tuple(Site(0, call, one.file, one.line, one.function) for one in places if one.line)
    certainty = KINDS[kind].certainty
    return Finding(kind=kind, severity=KINDS[kind].severity, certainty=certainty, message=message, sites=found)
