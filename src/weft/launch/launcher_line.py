"""Take a user's launcher line apart into the launcher, its options and the programs that it starts.

Variables must reach the ranks only, never the launcher: with LD_PRELOAD set, mpiexec would load an MPI library, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from weft.base.lazy import dataclass
from weft.errors import UsageError
from weft.launch.options import LAUNCHERS, OTHER_LAUNCHERS, VALUES, Family

PRELOAD = "LD_PRELOAD"


@dataclass(frozen=True)
class LineContext:
    """One program of a launcher line: the options before it, and the program with its arguments."""

    options: tuple[str, ...]
    program: tuple[str, ...]


@dataclass(frozen=True)
class LauncherLine:
    """A command: a launcher and its contexts (several with `:`, MPMD), or a program without launcher (launcher
    None).
    """

    launcher: str | None
    family: Family
    contexts: tuple[LineContext, ...]

    @property
    def programs(self) -> list[tuple[str, ...]]:
        """The programs with their arguments, one a context."""
        return [context.program for context in self.contexts]

    def argv(self) -> list[str]:
        """Return the whole line as a list of words."""
        words = [] if self.launcher is None else [self.launcher]
        for index, context in enumerate(self.contexts):
            words += [":"] * (index > 0) + [*context.options, *context.program]
        return words


NAMED = {
    "hydra": Family.HYDRA,
    "gforker": Family.HYDRA,
    "mpich": Family.HYDRA,
    "openmpi": Family.OPENMPI,
    "orterun": Family.OPENMPI,
    "prte": Family.OPENMPI,
    "prterun": Family.OPENMPI,
    "prun": Family.OPENMPI,
    "srun": Family.SRUN,
}
"""Words in a launcher's file name that say whose it is."""


def is_launcher(word: str) -> bool:
    """Return whether `word` names an MPI launcher."""
    name = Path(word).name
    return name in OTHER_LAUNCHERS or name.split(".")[0] in LAUNCHERS


def parse_launcher_line(command: Sequence[str]) -> LauncherLine:
    """Parse a command such as `mpiexec -n 4 prog` into launcher, options and programs. Raises UsageError if it starts
    no program."""
    if not command:
        raise UsageError("nothing to run: give a program after `--`, for example `weft run -n 4 -- python prog.py`")
    if not is_launcher(command[0]):
        return LauncherLine(None, Family.OTHER, (LineContext((), tuple(command)),))
    launcher = shutil.which(command[0])
    if launcher is None:
        raise UsageError(f"there is no launcher {command[0]!r} on the PATH")
    family = find_launcher_family(launcher)
    contexts = tuple(parse_context(family, words) for words in split_contexts(list(command[1:])))
    if not any(one.program for one in contexts) and not any("app" in w or "configfile" in w for w in command):
        raise UsageError(f"the command line `{' '.join(command)}` names no program to start")
    return LauncherLine(command[0], family, contexts)


def split_contexts(words: list[str]) -> list[list[str]]:
    """Split the words after the launcher at each `:`, which separates the programs of an MPMD line. Return the words
    of every program."""
    contexts: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            contexts.append([])
        else:
            contexts[-1].append(word)
    return contexts


def parse_context(family: Family, words: Sequence[str]) -> LineContext:
    """Split one context of a launcher line (the words between two colons) into the launcher's options and the
    program."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "--":
            index += 1
            break
        index += 1 + count_option_values(family, words, index)
    return LineContext(tuple(words[:index]), tuple(words[index:]))


def count_option_values(family: Family, words: Sequence[str], index: int) -> int:
    """Return how many of the words after the option `words[index]` are values of that option."""
    option = words[index]
    name = option.lstrip("-")
    if "=" in name:
        return 0
    known = VALUES[family].get(name)
    if known is not None:
        return known
    if family is Family.SRUN and len(name) > 1 and not option.startswith("--"):
        return 0  # -n4, and bundles of flags
    # An unknown option: the next word is its value unless it can be a program.
    following = words[index + 1 : index + 2]
    return int(bool(following) and not following[0].startswith("-") and shutil.which(following[0]) is None)


@cache
def find_launcher_family(launcher: str) -> Family:
    """Return the family of a launcher: by its file name if that shows it, else by its --version output."""
    words = re.split(r"[.\-_]", Path(launcher).resolve().name)
    for word, family in NAMED.items():
        if word in words:
            return family
    return family_from_version(read_launcher_version(launcher))


def family_from_version(text: str) -> Family:
    """Return the family of a launcher, given what it prints about its version."""
    lower = text.lower()
    if any(word in lower for word in ("open mpi", "open-mpi", "openrte", "prrte")):
        return Family.OPENMPI
    if any(word in lower for word in ("hydra", "mpich", "intel(r) mpi", "mvapich")):
        return Family.HYDRA
    return Family.SRUN if lower.startswith("slurm") else Family.OTHER


@cache
def read_launcher_version(launcher: str) -> str:
    """Return what a launcher prints for --version, empty if it fails."""
    try:
        done = subprocess.run(
            [launcher, "--version"], capture_output=True, text=True, errors="replace", timeout=20,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def add_rank_variables(
    line: LauncherLine, variables: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command and its environment, so that the ranks see `variables` and the launcher does not.

    `environment`: the user's; a value of LD_PRELOAD there or on the line is kept after ours. Without LD_PRELOAD in
    `variables` nothing is added to the line: the ranks are started by weft.launch.local.
    """
    if PRELOAD not in variables:
        return line.argv(), {**environment, **variables}
    merged = dict(variables)
    if environment.get(PRELOAD) and PRELOAD in variables:
        merged[PRELOAD] = f"{variables[PRELOAD]}:{environment[PRELOAD]}"
    if line.family is Family.OTHER:
        return line.argv(), {**environment, **merged}
    insert = {
        Family.HYDRA: add_hydra_variables,
        Family.OPENMPI: add_openmpi_variables,
        Family.SRUN: add_srun_variables,
    }[line.family]
    contexts = insert(line.contexts, merged, variables[PRELOAD])
    return LauncherLine(line.launcher, line.family, contexts).argv(), dict(environment)


def add_hydra_variables(
    contexts: tuple[LineContext, ...], variables: Mapping[str, str], preload: str
) -> tuple[LineContext, ...]:
    """Return the contexts of a line of MPICH's mpiexec with `-genv NAME VALUE` for each variable, once for all
    contexts. A user's LD_PRELOAD stays, after ours."""
    changed = [
        LineContext(prepend_to_user_preload(one.options, ("env", "genv"), preload), one.program) for one in contexts
    ]
    options = [word for name, value in variables.items() for word in ("-genv", name, value)]
    if any(sets_preload(one.options, ("genv",)) for one in contexts):
        options = [word for name, value in variables.items() if name != PRELOAD for word in ("-genv", name, value)]
    return (LineContext((*options, *changed[0].options), changed[0].program), *changed[1:])


def sets_preload(options: Sequence[str], names: Sequence[str]) -> bool:
    """Return whether the user's options set LD_PRELOAD; `names`: the options that take a name and a value."""
    return any(
        option.lstrip("-") in names and options[i + 1 : i + 2] and options[i + 1].split("=")[0] == PRELOAD
        for i, option in enumerate(options)
    )


def prepend_to_user_preload(options: Sequence[str], names: Sequence[str], preload: str) -> tuple[str, ...]:
    """Return the options with `preload` before the value of the user's `-genv LD_PRELOAD value`. `names`: the options
    that take a name and a value."""
    words = list(options)
    for i, option in enumerate(words):
        if option.lstrip("-") in names and words[i + 1 : i + 2] == [PRELOAD] and i + 2 < len(words):
            words[i + 2] = f"{preload}:{words[i + 2]}"
        elif option.lstrip("-") in names and i + 1 < len(words) and words[i + 1].startswith(f"{PRELOAD}="):
            words[i + 1] = f"{PRELOAD}={preload}:{words[i + 1].partition('=')[2]}"
    return tuple(words)


def add_openmpi_variables(
    contexts: tuple[LineContext, ...], variables: Mapping[str, str], preload: str
) -> tuple[LineContext, ...]:
    """Return the contexts of an mpirun line, each with `-x NAME=VALUE` for every variable, as Open MPI applies it to
    one context only."""
    return tuple(add_to_openmpi_context(one, variables, preload) for one in contexts)


def add_to_openmpi_context(context: LineContext, variables: Mapping[str, str], preload: str) -> LineContext:
    """Return a context of an mpirun line with `-x NAME=VALUE` for each variable, merged with the user's own -x
    LD_PRELOAD or mca_base_env_list."""
    words = list(context.options)
    names = [name for name in variables if name != PRELOAD]
    for i, word in enumerate(words[:-1]):
        if word == "-x" and words[i + 1].split("=")[0] == PRELOAD:
            value = words[i + 1].partition("=")[2]
            words[i + 1] = f"{PRELOAD}={preload}:{value}" if value else f"{PRELOAD}={variables[PRELOAD]}"
            break
    else:
        names.insert(0, PRELOAD)
    for i, word in enumerate(words[:-1]):
        if word == "mca_base_env_list":  # Open MPI refuses it together with -x
            words[i + 1] = ";".join([words[i + 1], *(f"{name}={variables[name]}" for name in names)])
            return LineContext(tuple(words), context.program)
    ours = [word for name in names for word in ("-x", f"{name}={variables[name]}")]
    return LineContext((*ours, *words), context.program)


def add_srun_variables(
    contexts: tuple[LineContext, ...], variables: Mapping[str, str], preload: str
) -> tuple[LineContext, ...]:
    """Return the contexts of an srun line, each with `--export=ALL,NAME=VALUE`, merged with the user's own --export."""
    return tuple(add_to_srun_context(one, variables, preload) for one in contexts)


def add_to_srun_context(context: LineContext, merged: Mapping[str, str], preload: str) -> LineContext:
    """Return one srun context with the variables added to its --export, beside what the user exports. With the user's
    --export=NONE the ranks get these variables and nothing else."""
    words, exported = [], "ALL"
    options = iter(context.options)
    for word in options:
        if word == "--export":
            exported = next(options, "ALL")
        elif word.startswith("--export="):
            exported = word.partition("=")[2]
        else:
            words.append(word)
    variables = dict(merged)
    kept = []
    for item in exported.split(","):
        name, equals, value = item.partition("=")
        if name == PRELOAD and equals:
            variables[PRELOAD] = f"{preload}:{value}"
        elif name not in ("NONE", "NIL", PRELOAD):
            kept.append(item)
    if "," in "".join(variables.values()):
        raise UsageError("srun cannot pass a value with a comma: choose another --out, or unset LD_PRELOAD")
    items = [*kept, *(f"{name}={value}" for name, value in variables.items())]
    return LineContext((f"--export={','.join(items)}", *words), context.program)
