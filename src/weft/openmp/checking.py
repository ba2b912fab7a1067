"""Run an OpenMP program once under the simulated runtime and turn what the runtime wrote into findings."""

from __future__ import annotations

import dataclasses
import re
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.base.facts import changed
from weft.base.words import plural, rank_words
from weft.dataparallel import runtime_output
from weft.dataparallel.check_coverage import format_places
from weft.dataparallel.front_end import CheckOutcome, CheckRequest
from weft.dataparallel.grouping import format_times
from weft.dataparallel.messages import NO_ROOM
from weft.dataparallel.program import run_program
from weft.dataparallel.progress import Say, ignore
from weft.dataparallel.raw_findings import NOWHERE
from weft.dataparallel.runtime_output import RuntimeOutput
from weft.dataparallel.source_map import AccessPlace, SourceMap
from weft.errors import WeftError
from weft.evidence import CheckCase, Evidence, Line, Loop, Pair
from weft.findings import Finding, Site
from weft.kinds import KINDS
from weft.openmp import (
    device_copies,
    merged_tasks,
    messages,
    missing_order,
    private_variables,
    reductions,
    remedies,
)
from weft.openmp.build import BuiltProgram, build_program
from weft.openmp.directives import OpenMPDirective
from weft.openmp.missing_order import MissingOrder
from weft.openmp.raw_findings import (
    Access,
    NamedElement,
    RawOpenMPFinding,
    Strand,
    collect_program_counters,
    is_header,
    is_library_file,
    parse_findings,
)
from weft.openmp.source_rewriting import read_directives, requires_shared_memory, source_language
from weft.openmp.variable_names import (
    VariableNames,
    find_atomic_statement_line,
    find_single_directive,
    get_preprocessed_line,
    is_directive,
    is_fortran_place,
    source_line,
)

NEAR: Final = 4
"""Lines by which the compiler may misplace a construct's call."""
KINDS_OF_MACROS: Final = frozenset(("loop", "region", "teams", "alone"))
LOOPS: Final = frozenset(("for", "do", "sections", "taskloop", "simd", "loop", "distribute"))
PLAIN_REGION: Final = re.compile(
    r"\s*#\s*pragma\s+omp\s+(?:[\w ]* )?parallel\b(?!.*\b(?:lastprivate|reduction|linear)\b)"
)
"""A directive of a parallel region that gives no value back."""
FORTRAN_FUNCTION: Final = re.compile(r"(?:__\w+?_MOD_)?(?P<name>\w+?)_?(?:\.\d+)?$")
"""A function's name as gfortran mangles it."""
OUTLINED: Final = re.compile(r"(?:_| \[clone )?\._omp_fn\.\d+.*")
"""What the compiler adds to the name of a function whose construct it makes a function of its own."""


@dataclass(frozen=True, slots=True)
class RawConstructRun:
    """How often one construct ran in one process, as the runtime wrote it; `pc` is the program counter of its call."""

    kind: str
    pc: int
    times: int
    iterations: int


@dataclass(frozen=True, slots=True)
class CheckedProcess:
    """The output of the runtime in one process of the program, with the source place of each program counter."""

    output: RuntimeOutput
    construct_runs: list[RawConstructRun]
    places: dict[int, AccessPlace]
    calls: dict[int, tuple[AccessPlace, ...]] = field(default_factory=dict)
    """The calls that lead to each program counter in a header's function that the compiler put there, up to the one in
    a source.
    """

    def construct_place(self, ran: RawConstructRun) -> AccessPlace:
        """Return the source line of a construct that ran."""
        return self.places.get(ran.pc, NOWHERE)


def check_program(request: CheckRequest, folder: Path) -> CheckOutcome:
    """Compile the program in `folder`, run it once under the simulated runtime, and return what was found.

    Raises UsageError if the program does not compile, and WeftError if the runtime cannot start.
    """
    began = time.perf_counter()
    built = build_program(request, folder)
    preparing = time.perf_counter() - began
    outcome = check_built_program(built, request, folder)
    return dataclasses.replace(outcome, ended=dataclasses.replace(outcome.ended, preparing=preparing))


def check_built_program(built: BuiltProgram, request: CheckRequest, folder: Path) -> CheckOutcome:
    """Run a program that was built for the simulated runtime, and return its findings and what they do not cover.

    `folder`: where each process writes its output (`openmp*.jsonl`); older output there is deleted first.
    """
    for one in folder.glob("openmp*.jsonl"):
        one.unlink()
    told = folder / ("openmp-%p.jsonl" if request.launcher else "openmp.jsonl")
    ended = run_program(
        built.path, request.arguments, told, request.grid, request.timeout,
        launcher=request.launcher, say=request.say, look=CostWatch(folder, request.say).report_slow_construct,
    )  # fmt: skip
    processes = sorted(map(read_process_output, folder.glob("openmp*.jsonl")), key=lambda one: one.output.rank)
    sources = (*request.sources, *find_included_files(processes, request.sources))
    for process in processes:
        align_construct_lines(process, sources)
    texts = SourceMap("fortran" if all(source_language(one) == "fortran" for one in request.sources) else "c")
    ran = count_construct_runs(sources, processes, texts)
    findings = merge_process_findings(
        [list(collect_process_findings(process, built.path, sources)) for process in processes]
    )
    left = list(describe_unchecked(sources, processes))
    kept = [(str(source), line) for source, line in built.unchanged_directives]
    kept += [
        (str(source), line)
        for source in request.sources
        for line, one in read_directives(source)
        if one.has_inscan_reduction
    ]
    if kept:
        left.append(messages.KEPT.format(at=format_places(kept)))
    return CheckOutcome(ended, texts, findings, tuple(left), runtime_output=ran)


class CostWatch:
    """Says once that the program runs slower than promised, as its runtime found in samples."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder, self._say = folder, say
        self._read: dict[Path, int] = {}
        """How many bytes of each process's file were read: whole lines."""

    def report_slow_construct(self) -> None:
        """Tell the user which construct makes the check slow, if a process has written that since the last look. After
        the first such message, nothing more is said.
        """
        for path in self._folder.glob("openmp*.jsonl") if self._say is not ignore else ():
            if b'{"slow"' in self._read_new_lines(path):
                process = read_process_output(path)
                slow = process.output.slow
                if slow is not None:
                    self._say(
                        messages.describe_cost(slow["slow"], slow["share"], process.places.get(slow["pc"], NOWHERE))
                    )
                    self._say = ignore
                    return

    def _read_new_lines(self, path: Path) -> bytes:
        """Return the whole lines that a process has written to its file since the last call for this file."""
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            text = file.read()
        lines = text[: text.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(lines)
        return lines


def collect_process_findings(process: CheckedProcess, program: Path, sources: Sequence[Path]) -> Iterator[Finding]:
    """Yield the findings of one process; each of their sites has the rank of the process."""
    names = VariableNames(program, process.output.program_base)
    try:
        found = list(
            make_findings(
                parse_findings(process.output, process.places, process.calls),
                names,
                collect_private_variables(sources),
            )
        )
    finally:
        names.close()
    rank = process.output.rank
    for one in (*found, *find_wrong_reductions(sources, process), *find_merged_tasks(sources, process)):
        yield dataclasses.replace(one, sites=tuple(dataclasses.replace(site, rank=rank) for site in one.sites))


class Processes(Evidence):
    """The ranks of the processes in which it was found."""

    ranks: Sequence[int]


def merge_process_findings(processes: Sequence[Sequence[Finding]]) -> tuple[Finding, ...]:
    """Return the findings of all processes. Findings with the same kind, variable and places become one finding that
    names all their ranks.
    """
    if len(processes) == 1:
        return tuple(processes[0])
    known: dict[object, list[Finding]] = defaultdict(list)
    for one in (one for found in processes for one in found):
        places = tuple((site.call, site.file, site.line) for site in one.sites)
        variable = one.evidence.variable if isinstance(one.evidence, CheckCase) else None
        known[one.kind, variable, places].append(one)
    return tuple(merge_across_ranks(found, len(processes)) for found in known.values())


def merge_across_ranks(findings: Sequence[Finding], rank_count: int) -> Finding:
    """Return the first of several findings at the same places, with the ranks of all in its message and evidence."""
    numbers = sorted({site.rank for one in findings for site in one.sites[:1]})
    said = f"all {rank_count} ranks" if len(numbers) == rank_count else rank_words(numbers)
    case = findings[0].evidence
    return dataclasses.replace(
        findings[0],
        message=f"{findings[0].message}, on {said}",
        evidence=changed(case, ranks=numbers) if isinstance(case, CheckCase) else Processes(ranks=numbers),
    )


def _construct_evidence(strand: Strand) -> Loop | None:
    """Return the loop or other construct of a strand, as evidence of a finding; None if its line is unknown."""
    at = strand.at
    return Loop(kind=strand.what, file=at.file, line=at.line, text="") if at.line else None


def find_wrong_reductions(sources: Sequence[Path], process: CheckedProcess) -> Iterator[Finding]:
    """Yield a finding for each reduction that is declared with another operation than its loop or block computes. Only
    reductions that ran in the process are reported.
    """
    ran: dict[tuple[str, int], int] = defaultdict(int)
    for one in process.construct_runs:
        place = process.construct_place(one)
        ran[place.file, place.line] += one.iterations
    for source in sources:
        file = str(source.absolute())
        for wrong in reductions.find_misdeclared_reductions(source):
            if ran.get((file, wrong.directive_line), 0) > 0 or (
                not wrong.is_loop and (file, wrong.directive_line) in ran
            ):
                yield Finding(
                    kind="wrong-reduction", severity=KINDS["wrong-reduction"].severity, certainty="certain",
                    message=messages.describe_wrong_reduction(
                        wrong.name, wrong.declared, wrong.computed, wrong.is_loop
                    ),
                    sites=(
                        Site(0, "update", file, wrong.update_line, ""),
                        Site(0, "directive", file, wrong.directive_line, ""),
                    ),
                    evidence=CheckCase(case="operation", count=1, variable=wrong.name),
                )  # fmt: skip


def find_merged_tasks(sources: Sequence[Path], process: CheckedProcess) -> Iterator[Finding]:
    """Yield a finding for each variable whose value depends on whether a mergeable task, which ran in the process, is
    merged. It is certain where the task ran undeferred.
    """
    ran: dict[tuple[str, int], set[str]] = defaultdict(set)
    for one in process.construct_runs:
        place = process.construct_place(one)
        ran[place.file, place.line].add(one.kind)
    for source in sources:
        file = str(source.absolute())
        for found in merged_tasks.find_variables_of_merged_tasks(source):
            kinds = ran.get((file, found.directive_line), set())
            lines = (found.directive_line, found.write_line, found.read_line)
            if kinds:
                yield Finding(
                    kind="merged-task", severity=KINDS["merged-task"].severity,
                    certainty="certain" if "mergeable" in kinds else "possible",
                    message=messages.describe_merged_task(found.name, *(AccessPlace(file, line) for line in lines)),
                    sites=(
                        Site(0, "read", file, found.read_line, ""),
                        Site(0, "directive", file, found.directive_line, ""),
                    ),
                    evidence=CheckCase(case="merged", count=1, variable=found.name),
                )  # fmt: skip


def collect_private_variables(sources: Sequence[Path]) -> set[tuple[str, str]]:
    """Return (file, variable) for each variable that a directive of the sources makes private without a value."""
    return {
        (str(source.absolute()), name)
        for source in sources for _, one in read_directives(source)
        for name in private_variables.variables_without_value(one)
    }  # fmt: skip


def read_process_output(path: Path) -> CheckedProcess:
    """Return what the runtime wrote in one process, with the source place of each program counter.

    Raises WeftError if the runtime found no memory for its shadow memory.
    """
    told = runtime_output.read_runtime_output(path)
    if told.usage is not None:
        raise WeftError(NO_ROOM)
    places: dict[int, AccessPlace] = {}
    calls: dict[int, tuple[AccessPlace, ...]] = {}
    for pc, frames in told.resolve_frames(collect_program_counters(told)).items():
        own = [one for one in frames if not is_library_file(one[0])] or frames[:1]
        directive_line = told.lines.get(pc, 0)  # code of a function in the loop's bound may stand before the loop
        file, line, function = next((one for one in reversed(own) if is_directive(one[0], directive_line)), own[0])
        number = told.lines.get(pc) or find_atomic_statement_line(file or "", line)
        places[pc] = make_place(file, number, function)
        if is_header(file):
            outer = [make_place(*one) for one in own[own.index((file, line, function)) + 1 :]]
            last = next((k for k, one in enumerate(outer, 1) if not is_header(one.file)), 0)
            calls[pc] = tuple(outer[:last])
    ran = [RawConstructRun(one["construct"], one["pc"], one["times"], one["iterations"]) for one in told.constructs]
    return CheckedProcess(told, ran, places, calls)


def make_place(file: str | None, line: int, function: str | None) -> AccessPlace:
    """Return a source place. The function's name is that in the source, also if the compiler made the construct a
    function of its own.
    """
    name = OUTLINED.sub("", function or "")
    if file and Path(file).suffix.lower().startswith(".f") and (found := FORTRAN_FUNCTION.match(name)):
        name = "the main program" if found["name"] in {"MAIN", "MAIN_"} else found["name"]
    return AccessPlace(str(Path(file)) if file else "", line, 0, name)


def find_included_files(processes: Sequence[CheckedProcess], sources: Sequence[Path]) -> list[Path]:
    """Return the program's files outside `sources`, such as headers, that have a directive that ran. Paths below the
    current folder are relative to it.
    """
    known = {str(source.absolute()) for source in sources}
    files = {file for one in processes for ran in one.construct_runs if (file := one.construct_place(ran).file)} - known
    here = Path.cwd()
    paths = [Path(file) for file in sorted(files) if not is_library_file(file) and Path(file).is_file()]
    return [path.relative_to(here) if path.is_relative_to(here) else path for path in paths]


def describe_unchecked(sources: Sequence[Path], processes: Sequence[CheckedProcess]) -> Iterator[str]:
    """Yield a phrase for each part of the program that the run did not check, with its places."""

    def at(places: Iterable[AccessPlace]) -> str:
        return format_places(sorted({(one.file, one.line) for one in places if one.line}))

    ran = [(held.kind, one.construct_place(held)) for one in processes for held in one.construct_runs]
    teams = {place for construct, place in ran if construct in ("region", "teams")}
    lanes = {
        (str(source.absolute()), line)
        for source in sources
        for line, one in read_directives(source)
        if one.is_simd_loop
    }
    alone = {place for construct, place in ran if construct == "alone" and (place.file, place.line) not in lanes}
    if alone := alone - teams:
        yield f"{plural(len(alone), 'region')} that the program ran with one thread only ({at(alone)})"
    left: dict[str, list[AccessPlace]] = {}
    for one in processes:
        for held in parse_findings(one.output, one.places):
            if held.kind == "left":
                left.setdefault(held.why, []).append(held.access.place)
    for reason, places in left.items():
        yield messages.LEFT[reason].format(at=at(places))
    if shared := [str(source) for source in sources if requires_shared_memory(source)]:
        yield messages.ONE_MEMORY.format(at=", ".join(shared))


def align_construct_lines(process: CheckedProcess, sources: Sequence[Path]) -> None:
    """Move the places of `sections` and `single` constructs to the lines of their directives. The compiler gives their
    calls the line of the statement before.
    """
    known = {str(source.absolute()): list(read_directives(source)) for source in sources}
    for one in process.construct_runs:
        if one.pc in process.output.lines or one.kind not in ("single", "loop"):
            continue
        word, place = "single" if one.kind == "single" else "sections", process.construct_place(one)
        found = [line for line, directive in known.get(place.file, ()) if line >= place.line and word in directive.head]
        if found:
            process.places[one.pc] = dataclasses.replace(place, line=found[0])


def count_construct_runs(
    sources: Sequence[Path], processes: Sequence[CheckedProcess], source_map: SourceMap
) -> RuntimeOutput:
    """Add each directive of the sources to the source map. Return, as the runtime's output, how often each directive
    ran and how many iterations it had in all runs.
    """
    counts: dict[tuple[str, int], list[int]] = {}
    for place, ran in ((process.construct_place(one), one) for process in processes for one in process.construct_runs):
        one = counts.setdefault((place.file, place.line), [0, 0])
        if ran.kind == "loop" or not one[1]:
            one[0] = max(one[0], ran.times)
        one[1] += ran.iterations
    told = RuntimeOutput(places=max((one.output.places for one in processes), default=0))
    for source in sources:
        for line, directive in read_directives(source):
            if directive.head[0] == "end":
                continue
            loop = bool(LOOPS & set(directive.head)) and directive.head[0] not in {"declare", "ordered"}
            region = {"parallel", "teams"} & set(directive.head) or is_target_directive(directive)
            kind = "parallel" if loop else "region" if region else directive.head[0]
            number = source_map.add_construct(kind, str(source), line, text=format_directive(directive, source))
            if (counted := counts.get((str(source.absolute()), line))) is not None:
                told.construct_runs[number] = (counted[0], counted[1])
    for place, kind in find_macro_constructs(sources, processes).items():
        number = source_map.add_construct(kind, place.file, place.line, text=source_line(place).strip())
        times, iterations = counts[place.file, place.line]
        told.construct_runs[number] = (times, iterations)
    return told


def find_macro_constructs(sources: Sequence[Path], processes: Sequence[CheckedProcess]) -> dict[AccessPlace, str]:
    """Return the places of constructs that ran and that no directive of the sources stands near: macros with `_Pragma`
    made them. With each place, its kind.
    """
    near = {
        (str(source.absolute()), line + away)
        for source in sources for line, _ in read_directives(source) for away in range(-NEAR, NEAR + 1)
    }  # fmt: skip
    found: dict[AccessPlace, str] = {}
    for process in processes:
        for one in process.construct_runs:
            place = dataclasses.replace(process.construct_place(one), function="", column=0)
            if one.kind in KINDS_OF_MACROS and place.line and (place.file, place.line) not in near:
                found[place] = "parallel" if one.kind == "loop" else found.get(place, "region")
    return found


def is_target_directive(directive: OpenMPDirective) -> bool:
    """Return whether a directive is a target region or copies data between host and device."""
    return "target" in directive.head and "declare" not in directive.head


def format_directive(directive: OpenMPDirective, source: Path) -> str:
    """Return a directive as the program spells it, with `#pragma omp` or `!$omp`."""
    return ("!$omp " if source_language(source) == "fortran" else "#pragma omp ") + str(directive)


def is_copy_of_reference(race: RawOpenMPFinding) -> bool:
    """Return whether a race is on memory of the compiler's own: behind a parallel region within another one, it writes
    back the address of what a reference refers to, which no program can change.
    """
    writes = [access for access in (race.access, race.other_access) if access.write]
    heads = [source_line(access.place) for access in writes]
    return not race.named.name and race.frame is not None and any(map(PLAIN_REGION.match, heads))


def race_cause_key(race: RawOpenMPFinding) -> tuple[object, ...]:
    """Return a key that is equal for races of one cause: races on the same variable, or the same memory block, in the
    same construct.
    """
    at = (race.other_access if race.access.strand.what == "host" else race.access).strand.pc
    if race.named.name:
        return (race.named.name, race.named.line, at)
    return (at, race.address if race.block is None else race.block)


def race_sort_key(race: RawOpenMPFinding) -> tuple[bool, bool, bool, int]:
    """Return a key that sorts races of one cause: those with a known element first, pairs of two writes last."""
    return (not race.named.index, not race.named.line, race.access.write and race.other_access.write, race.id)


def make_findings(
    records: Sequence[RawOpenMPFinding], names: VariableNames, private_variables: Collection[tuple[str, str]]
) -> Iterator[Finding]:
    """Yield the findings of one process from its raw findings, one for each cause.

    `private_variables`: (file, variable) of all variables that some directive makes private.
    """
    causes: dict[object, list[RawOpenMPFinding]] = defaultdict(list)
    name_races(records, names)
    for one in records:
        if one.kind in ("data-race", "chunk-race"):
            if not is_copy_of_reference(one):
                causes[race_cause_key(one)].append(one)
        elif one.kind == "valueless":
            yield from _make_uninitialised_read(one, names, private_variables)
        elif one.kind not in device_copies.KINDS_OF:
            yield from _make_sync_findings(one)
    yield from device_copies.make_copy_findings((one for one in records if one.kind in device_copies.KINDS_OF), names)
    crossed = {
        frozenset((one.access.strand.at, one.other_access.strand.at))
        for races in causes.values() for one in races if one.crosses
    }  # fmt: skip
    sorted_causes = [
        sorted([one for one in races if not one.chunk] or races, key=race_sort_key)
        for races in merge_container_races(causes)
    ]
    by_order = [races for races in sorted_causes if not remedies.suggest_remedy_of_variable(races)]
    for races in sorted_causes:
        if races not in by_order:
            yield _make_race_finding(races, crossed)
    for order, groups in missing_order.group_by_missing_order(by_order):
        races = [race for one in groups for race in one]
        if order is None or len({race.named.name for race in races}) == 1:
            yield _make_race_finding(races, crossed)
        else:
            yield _make_order_finding(order, races, crossed)


def merge_container_races(
    causes: Mapping[object, Sequence[RawOpenMPFinding]],
) -> list[list[RawOpenMPFinding]]:
    """Return a list of races for each cause. Causes that concern the memory of one container of the language's library,
    such as a `std::map`, are joined.

    The parts of such a container have separate memory blocks, but their races are at the same calls.
    """
    merged: list[tuple[set[tuple[int, str, int]], list[RawOpenMPFinding]]] = []
    for races in sorted(causes.values(), key=lambda races: not any(one.named.line for one in races)):
        calls = {
            (one.access.strand.pc, at.place.file, at.place.line)
            for one in races for at in (one.access, one.other_access) if at.is_in_library
        }  # fmt: skip
        known = next((one for one in merged if calls & one[0]), None)
        if known is None or any(one.named.line for one in races):
            merged.append((calls, list(races)))
        else:
            known[0].update(calls)
            known[1].extend(races)
    return [races for _, races in merged]


def name_races(records: Sequence[RawOpenMPFinding], names: VariableNames) -> None:
    """Give each race its variable. A race in a block of the heap for which its lines have no name has that of another
    race there.
    """
    races = [one for one in records if one.kind in ("data-race", "chunk-race")]
    for one in races:
        one.named = name_raced_variable(one, names)
    known = {one.block: one.named.name for one in reversed(races) if one.named.name}
    for one in races:
        if not one.named.name and one.block is not None:
            one.named = NamedElement(known.get(one.block, ""))


def name_raced_variable(race: RawOpenMPFinding, names: VariableNames) -> NamedElement:
    """Return the variable that both accesses of a race touch, with the index of the element if it is an array."""
    places = [(names.place_with_column(one), one.write) for one in (race.access, race.other_access)]
    if "copy" in (
        race.access.strand.what,
        race.other_access.strand.what,
    ):  # its line is the directive's, with many names
        places = places[:1] if race.other_access.strand.what == "copy" else places[1:]
    calls = (race.access.calls, race.other_access.calls)
    return names.name_memory(race, places, is_fortran_place(race.access.place), calls)


def _make_uninitialised_read(
    raw_finding: RawOpenMPFinding, names: VariableNames, private_variables: Collection[tuple[str, str]]
) -> Iterator[Finding]:
    """Yield the finding for a read of a private variable that has no value. Yield nothing if the memory no longer
    belongs to such a variable.
    """
    place, strand = raw_finding.access.place, raw_finding.access.strand
    text = get_preprocessed_line(place)
    known = [names.name_memory(raw_finding, ((place, False), (place, False)), is_fortran_place(place)).name]
    known += [name for file, name in sorted(private_variables) if re.search(rf"\b{name}\b", text)]
    name = next((variable for variable in known if (place.file, variable) in private_variables), "")
    if not name:  # what once was private, and is another function's now
        return
    message = messages.describe_uninitialised_read(name, messages.describe_strand(strand, strand.at, place.file), place)
    evidence = CheckCase(case="private", count=raw_finding.count, variable=name, loop=_construct_evidence(strand))
    yield Finding(
        kind="uninitialised-read", severity=KINDS["uninitialised-read"].severity, certainty="certain",
        message=message + format_times(raw_finding.count), evidence=evidence,
        sites=(Site(0, "read", place.file, place.line, place.function),),
    )  # fmt: skip


def _describe_access_strand(access: Access) -> str:
    """Return the name of the iteration, task or thread that made an access, with the line of its directive."""
    strand = access.strand
    at = find_single_directive(strand.at, access.place) if strand.what == "single" else strand.at
    own = access.place if access.caller is NOWHERE else access.caller
    return messages.describe_strand(strand, at, own.file)


def _make_race_finding(races: Sequence[RawOpenMPFinding], crossed: Collection[frozenset[AccessPlace]] = ()) -> Finding:
    """Return one finding for all races of one variable. The first race gives the message; all give places and counts.

    `crossed`: pairs of constructs of which parts with different numbers race.
    """
    first = races[0]
    named, place = first.named, first.access.place
    count = sum(race.count for race in races)
    said = messages.describe_race(first, _name_strands(first), is_fortran_place(place))
    said += (
        remedies.suggest_remedy_of_variable(races)
        or remedies.suggest_static_schedule(first, crossed)
        or remedies.suggest_wait(first)
    )
    evidence = CheckCase(
        case="race", count=count, variable=named.name,
        pairs=[_make_pair(race) for race in races],
        index=named.index or None,
        declared=Line(file=place.file, line=named.line) if named.line else None,
        loop=_construct_evidence(first.access.strand),
    )  # fmt: skip
    return Finding(
        kind="data-race", severity="warning" if first.chunk else KINDS["data-race"].severity,
        certainty="possible" if first.chunk else "certain",
        message=said + format_times(count), sites=_list_race_sites(races), evidence=evidence,
    )  # fmt: skip


def _make_order_finding(
    order: MissingOrder, races: Sequence[RawOpenMPFinding], crossed: Collection[frozenset[AccessPlace]]
) -> Finding:
    """Return one finding for races of several variables that miss one barrier or one wait. Its first site is the
    construct behind which that is missing.
    """
    first = races[0]
    fortran = is_fortran_place(first.access.place)
    named: dict[str, str] = {}
    for race in races:
        named.setdefault(race.named.name, race.named.render(fortran))
    remedy = remedies.suggest_static_schedule(first, crossed).removeprefix("; ") or order.remedy
    count = sum(race.count for race in races)
    directives = [Site(0, "directive", at.file, at.line, at.function) for at in order.constructs]
    return Finding(
        kind="data-race", severity=KINDS["data-race"].severity, certainty="certain",
        message=messages.describe_common_order(list(named.values()), first, _name_strands(first), remedy)
        + format_times(count),
        sites=(*directives, *_list_race_sites(races)),
        evidence=CheckCase(
            case="order", count=count, variable="", pairs=[_make_pair(race, race.named.name) for race in races],
        ),
    )  # fmt: skip


def _name_strands(race: RawOpenMPFinding) -> tuple[str, str]:
    """Return what made the later and the earlier access of a race, as text."""
    return _describe_access_strand(race.access), _describe_access_strand(race.other_access)


def _make_pair(race: RawOpenMPFinding, variable: str | None = None) -> Pair:
    """Return the two lines of a race as evidence. `variable`: where the finding has several."""
    return Pair(
        file=race.access.place.file, line=race.access.place.line, write=race.access.write,
        other_file=race.other_access.place.file, other_line=race.other_access.place.line,
        other_write=race.other_access.write, count=race.count, variable=variable,
    )  # fmt: skip


def _list_race_sites(races: Sequence[RawOpenMPFinding]) -> tuple[Site, ...]:
    """Return the places of all accesses of races, each once, and of the calls that lead to them in headers."""
    accesses = [access for race in races for access in (race.access, race.other_access)]
    return tuple(dict.fromkeys(
        Site(0, does, at.file, at.line, at.function)
        for access in accesses
        for does, at in ((access.does, access.place), ("call", access.caller)) if at.line
    ))  # fmt: skip


def _make_sync_findings(raw_finding: RawOpenMPFinding) -> Iterator[Finding]:
    """Yield the finding for a raw finding about synchronisation: a barrier that some threads miss, locks taken in both
    orders, or a deadlock. Yield nothing for a barrier whose two places are the same line.
    """
    place, other = raw_finding.access.place, raw_finding.other_access.place
    if raw_finding.kind == "barrier":
        if place.line == other.line and place.file == other.file:
            return
        yield make_sync_finding(
            "missed-barrier", messages.describe_barrier(raw_finding.why, place, other), (place, other), "barrier"
        )
    elif raw_finding.kind == "lock-order":
        yield make_sync_finding(
            "potential-deadlock",
            messages.describe_lock_order(place, other, raw_finding.why == "circle"),
            (place, other),
            "lock",
        )
    elif raw_finding.kind == "deadlock":
        yield make_sync_finding("deadlock", messages.describe_deadlock(place, other), (place, other), "waits")


def make_sync_finding(kind: str, message: str, places: Sequence[AccessPlace], site_word: str) -> Finding:
    """Return a finding about synchronisation, which touches no data; `site_word` is the word for each of its sites."""
    found = tuple(Site(0, site_word, one.file, one.line, one.function) for one in places if one.line)
    certainty = KINDS[kind].certainty
    return Finding(kind=kind, severity=KINDS[kind].severity, certainty=certainty, message=message, sites=found)
