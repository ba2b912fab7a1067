"""A user's launcher line, taken apart: the launcher, its options, and the programs that it starts.

Variables must reach the ranks only, never the launcher: with LD_PRELOAD set, mpiexec would load an MPI library too.
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
class Context:
    """One program of the line: `options` stand before it, `program` is it and its arguments."""

    options: tuple[str, ...]
    program: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A command: a launcher and its contexts (several with `:`, MPMD), or a bare program (launcher None)."""

    launcher: str | None
    family: Family
    contexts: tuple[Context, ...]

    @property
    def programs(self) -> list[tuple[str, ...]]:
        """The programs with their arguments, one a context."""
        return [context.program for context in self.contexts]

    def argv(self) -> list[str]:
        """Put the line together again."""
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
    """Whether `word` names an MPI launcher."""
    name = Path(word).name
    return name in OTHER_LAUNCHERS or name.split(".")[0] in LAUNCHERS


def parse(command: Sequence[str]) -> Line:
    """Take a command line apart. Raises UsageError when it starts no program."""
    if not command:
        raise UsageError("nothing to run: give a program after `--`, for example `weft run -n 4 -- python prog.py`")
    if not is_launcher(command[0]):
        return Line(None, Family.OTHER, (Context((), tuple(command)),))
    launcher = shutil.which(command[0])
    if launcher is None:
        raise UsageError(f"there is no launcher {command[0]!r} on the PATH")
    family = family_of(launcher)
    contexts = tuple(context(family, words) for words in split(list(command[1:])))
    if not any(one.program for one in contexts) and not any("app" in w or "configfile" in w for w in command):
        raise UsageError(f"the line `{' '.join(command)}` starts no program")
    return Line(command[0], family, contexts)


def split(words: list[str]) -> list[list[str]]:
    """Split the launcher's words at the colons that part the contexts of an MPMD line."""
    contexts: list[list[str]] = [[]]
    for word in words:
        if word == ":":
            contexts.append([])
        else:
            contexts[-1].append(word)
    return contexts


def context(family: Family, words: Sequence[str]) -> Context:
    """Part the options of one context from its program."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "--":
            index += 1
            break
        index += 1 + arity(family, words, index)
    return Context(tuple(words[:index]), tuple(words[index:]))


def arity(family: Family, words: Sequence[str], index: int) -> int:
    """How many words after `words[index]` are the option's values."""
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
def family_of(launcher: str) -> Family:
    """Tell which launcher a path is: by its name where that says it, else by asking it for its version."""
    words = re.split(r"[.\-_]", Path(launcher).resolve().name)
    for word, family in NAMED.items():
        if word in words:
            return family
    return family_of_version(version_of(launcher))


def family_of_version(text: str) -> Family:
    """Recognise a launcher by what it prints about itself."""
    lower = text.lower()
    if any(word in lower for word in ("open mpi", "open-mpi", "openrte", "prrte")):
        return Family.OPENMPI
    if any(word in lower for word in ("hydra", "mpich", "intel(r) mpi", "mvapich")):
        return Family.HYDRA
    return Family.SRUN if lower.startswith("slurm") else Family.OTHER


@cache
def version_of(launcher: str) -> str:
    """Return what the launcher prints for --version, empty where it fails."""
    try:
        done = subprocess.run(
            [launcher, "--version"], capture_output=True, text=True, errors="replace", timeout=20,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def with_environment(
    line: Line, variables: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the command and the environment to start it with, so that the ranks see `variables`.

    `environment` is the user's; LD_PRELOAD goes before a value that the user gave there or on the line. Without one
    there is nothing to pass: ranks that start themselves (weft.launch.local).
    """
    if PRELOAD not in variables:
        return line.argv(), {**environment, **variables}
    merged = dict(variables)
    if environment.get(PRELOAD) and PRELOAD in variables:
        merged[PRELOAD] = f"{variables[PRELOAD]}:{environment[PRELOAD]}"
    if line.family is Family.OTHER:
        return line.argv(), {**environment, **merged}
    insert = {Family.HYDRA: hydra, Family.OPENMPI: openmpi, Family.SRUN: srun}[line.family]
    contexts = insert(line.contexts, merged, variables[PRELOAD])
    return Line(line.launcher, line.family, contexts).argv(), dict(environment)


def hydra(contexts: tuple[Context, ...], merged: Mapping[str, str], preload: str) -> tuple[Context, ...]:
    """`-genv NAME VALUE` once for all contexts; a user's own value of LD_PRELOAD is kept behind ours."""
    changed = [Context(before_user_value(one.options, ("env", "genv"), preload), one.program) for one in contexts]
    options = [word for name, value in merged.items() for word in ("-genv", name, value)]
    if any(mentions_preload(one.options, ("genv",)) for one in contexts):
        options = [word for name, value in merged.items() if name != PRELOAD for word in ("-genv", name, value)]
    return (Context((*options, *changed[0].options), changed[0].program), *changed[1:])


def mentions_preload(options: Sequence[str], names: Sequence[str]) -> bool:
    """Whether the user's options set LD_PRELOAD with one of the two-word options `names`."""
    return any(
        option.lstrip("-") in names and options[i + 1 : i + 2] and options[i + 1].split("=")[0] == PRELOAD
        for i, option in enumerate(options)
    )


def before_user_value(options: Sequence[str], names: Sequence[str], preload: str) -> tuple[str, ...]:
    """Put `preload` before the value that the user's `-genv LD_PRELOAD value` gives."""
    words = list(options)
    for i, option in enumerate(words):
        if option.lstrip("-") in names and words[i + 1 : i + 2] == [PRELOAD] and i + 2 < len(words):
            words[i + 2] = f"{preload}:{words[i + 2]}"
        elif option.lstrip("-") in names and i + 1 < len(words) and words[i + 1].startswith(f"{PRELOAD}="):
            words[i + 1] = f"{PRELOAD}={preload}:{words[i + 1].partition('=')[2]}"
    return tuple(words)


def openmpi(contexts: tuple[Context, ...], merged: Mapping[str, str], preload: str) -> tuple[Context, ...]:
    """`-x NAME=VALUE` in every context, as Open MPI keeps it to the context that it stands in."""
    return tuple(openmpi_context(one, merged, preload) for one in contexts)


def openmpi_context(one: Context, merged: Mapping[str, str], preload: str) -> Context:
    """Add the variables to one context; the user's own -x LD_PRELOAD or mca_base_env_list is merged, not doubled."""
    words = list(one.options)
    names = [name for name in merged if name != PRELOAD]
    for i, word in enumerate(words[:-1]):
        if word == "-x" and words[i + 1].split("=")[0] == PRELOAD:
            value = words[i + 1].partition("=")[2]
            words[i + 1] = f"{PRELOAD}={preload}:{value}" if value else f"{PRELOAD}={merged[PRELOAD]}"
            break
    else:
        names.insert(0, PRELOAD)
    for i, word in enumerate(words[:-1]):
        if word == "mca_base_env_list":  # Open MPI refuses it together with -x
            words[i + 1] = ";".join([words[i + 1], *(f"{name}={merged[name]}" for name in names)])
            return Context(tuple(words), one.program)
    ours = [word for name in names for word in ("-x", f"{name}={merged[name]}")]
    return Context((*ours, *words), one.program)


def srun(contexts: tuple[Context, ...], merged: Mapping[str, str], preload: str) -> tuple[Context, ...]:
    """`--export=ALL,NAME=VALUE`, merged with the user's own --export, in every context."""
    return tuple(srun_context(one, merged, preload) for one in contexts)


def srun_context(one: Context, merged: Mapping[str, str], preload: str) -> Context:
    """Add the variables to srun's list of exports (NONE there means: nothing but these)."""
    words, exported = [], "ALL"
    options = iter(one.options)
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
    return Context((f"--export={','.join(items)}", *words), one.program)
