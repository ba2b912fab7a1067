"""The old form of C-DVM: directives in the macro `DVM(…)`, loops in macros; both are brought into today's form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from weft.dvm.syntax import DirectiveError, Position

MACRO: Final = re.compile(r"\bDVM\s*\(")
LOOP: Final = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(([\w, \t]*)\)[ \t]*(for\b.*)$", re.MULTILINE)
DEFINE: Final = re.compile(r"^[ \t]*#[ \t]*define\b.*$", re.MULTILINE)
SILENT: Final = (
    "PROCESSORS",
    "REDUCTION_GROUP",
    "REMOTE_GROUP",
    "INDIRECT_GROUP",
    "SHADOW_GROUP",
    "COPY_FLAG",
    "COPY_WAIT",
    "INTERVAL",
    "END_INTERVAL",
    "DEBUG",
    "BARRIER",
)
"""Directives that say nothing to the checks: declarations of groups and processors, measuring, the end of a copy."""
USES: Final = ("SHADOW_START", "SHADOW_WAIT", "REDUCTION_START", "REDUCTION_WAIT", "PREFETCH", "RESET")
"""Directives that name a group."""


def is_old(text: str) -> bool:
    """Whether a source defines the macro."""
    return re.search(r"^[ \t]*#[ \t]*define[ \t]+DVM\(", text, re.MULTILINE) is not None


def closing(text: str, at: int) -> int:
    """Where the bracket that opens at `at` closes; the end of the text where it does not."""
    depth = 0
    for place in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    return len(text)


def spread_loops(text: str) -> str:
    """The text with the macros that are loops written out, each on its own line."""
    loops = {match[1]: ([one.strip() for one in match[2].split(",")], match[3]) for match in LOOP.finditer(text)}
    if not loops:
        return text
    defines = [match.span() for match in DEFINE.finditer(text)]
    use = re.compile(rf"\b({'|'.join(map(re.escape, loops))})\s*\(")
    parts: list[str] = []
    done = 0
    for match in use.finditer(text):
        if match.start() < done or any(low <= match.start() < high for low, high in defines):
            continue
        end = closing(text, match.end() - 1)
        names, body = loops[match[1]]
        given = [one.strip() for one in arguments(text[match.end() : end])]
        values = dict(zip(names, given, strict=False))
        written = re.sub(r"\w+", lambda word, values=values: values.get(word[0], word[0]), body)
        parts += [text[done : match.start()], written, "\n" * text.count("\n", match.start(), end)]
        done = end + 1
    return "".join([*parts, text[done:]])


def arguments(text: str) -> Iterator[str]:
    """A macro's arguments."""
    depth = start = 0
    for place, character in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            yield text[start:place]
            start = place + 1
    yield text[start:]


def directives(text: str) -> Iterator[tuple[int, int, str]]:
    """(begin, end, what the macro holds) of each `DVM(…)` that is not its own definition."""
    defines = [match.span() for match in DEFINE.finditer(text)]
    for match in MACRO.finditer(text):
        if not any(low <= match.start() < high for low, high in defines):
            end = closing(text, match.end() - 1)
            yield match.start(), end + 1, text[match.end() : end]


def today(old: str, place: Position) -> str | None:
    """A directive in today's form; None where it has no meaning for the checks. DirectiveError where it is unknown."""
    words = " ".join(old.split())
    keyword = re.match(r"\*?\s*(\w+)", words)
    name = keyword[1].upper() if keyword else ""
    rest = words[keyword.end() :].strip() if keyword else ""
    if name in SILENT or words.startswith("*"):
        return None
    if name in ("DISTRIBUTE", "ALIGN"):
        return declared(name, rest, place)
    if name == "REDISTRIBUTE":
        return None if rest.startswith("(") else f"redistribute({spread(rest)})"
    if name == "REALIGN":
        new = re.search(r"\bNEW\b", rest)
        array = re.sub(r"\bNEW\b", "", rest).strip()
        return None if array.startswith("(") else f"realign({with_small(array)})" + (" new_value" if new else "")
    if name == "PARALLEL":
        mapped, *clauses = (part.strip() for part in rest.split(";"))
        mapped = re.sub(r"\bON\b", "on", mapped)
        return f"parallel({mapped}) " + " ".join(clause(one, place) for one in clauses if one)
    if name == "TASK_REGION":
        tasks, *clauses = (part.strip() for part in rest.split(";"))
        return f"task_region {tasks} " + " ".join(clause(one, place) for one in clauses if one)
    if name in ("TASK", "ON"):
        return f"{name.lower()} {rest}"
    if name == "MAP":
        return "map " + re.sub(r"\bONTO\b", "onto", rest)
    if name in ("REMOTE_ACCESS", "INDIRECT_ACCESS"):
        held = without_group(rest)
        return f"remote_access({held if name == 'REMOTE_ACCESS' else whole(held)})"
    if name in ("COPY", "COPY_START"):
        return "copy"
    if name == "CREATE_TEMPLATE":
        return f"create_template {rest}"
    if name == "CREATE_SHADOW_GROUP":
        group, colon, held = rest.partition(":")
        if not colon:
            raise DirectiveError(place, "CREATE_SHADOW_GROUP names a group and, behind a colon, its arrays")
        return f"create_shadow_group {group.strip()}({renewals(held)})"
    if name in USES:
        return f"{name.lower()} {rest}"
    raise DirectiveError(place, f"`{name}` is not a directive of C-DVM")


def spread(old: str) -> str:
    """`A[BLOCK][] ONTO T[1]` with its words in today's spelling."""
    return re.sub(r"\b(BLOCK|GENBLOCK|WGTBLOCK|MULTBLOCK|ONTO)\b", lambda word: word[0].lower(), old)


def with_small(text: str) -> str:
    """`[i] WITH a[i]` with its word in today's spelling."""
    return re.sub(r"\bWITH\b", "with", text)


def clause(old: str, place: Position) -> str:
    """One clause of `PARALLEL` in today's form."""
    name, _, rest = old.partition(" ")
    rest = rest.strip()
    kind = name.upper()
    if kind == "REDUCTION":
        group = re.match(r"\w+\s*:", rest)
        found = re.findall(r"(\w+)\s*\(([^()]*)\)", rest)
        listed = ", ".join(f"{operator.lower()}({names})" for operator, names in found)
        return f"reduction({group[0] + ' ' if group else ''}{listed})"
    if kind == "SHADOW_RENEW":
        return f"shadow_renew({renewals(rest)})"
    if kind in ("REMOTE_ACCESS", "ACROSS", "SHADOW_START", "SHADOW_WAIT"):
        return f"{kind.lower()}({rest})"
    if kind == "INDIRECT_ACCESS":
        return f"remote_access({whole(rest)})"
    if kind == "PIPE":
        return f"stage({rest})"
    raise DirectiveError(place, f"`{name}` is not a clause of PARALLEL")


def renewals(old: str) -> str:
    """Arrays whose edges are renewed, in today's form."""
    corner = re.sub(r"\bCORNER\b", "(corner)", old)
    return ", ".join(re.sub(r"(\[\s*\])+", "", one).strip() for one in arguments(corner))


def without_group(old: str) -> str:
    """The elements of a remote access without the group: before a statement, they are fetched there."""
    return re.sub(r"^\s*\w+\s*:", "", old)


def whole(old: str) -> str:
    """Arrays with an index from another array, each as a whole: which elements it names, the program's data tell."""
    found = []
    for one in arguments(old):
        depth = 0
        kept = []
        for character in one:
            depth -= character == "]"
            if not depth:
                kept.append(character)
            depth += character == "["
        found.append("".join(kept))
    return ",".join(found)


def declared(name: str, rest: str, place: Position) -> str:
    """The declaration of an array or a template, with its edges."""
    first, *more = (part.strip() for part in rest.split(";"))
    what, edges = "array", ""
    for part in filter(None, more):
        word, _, held = part.partition("[")
        held = held and f"[{held}"
        if word.strip() == "SHADOW":
            edges = f" shadow{held}"
        elif word.strip() == "TEMPLATE":
            what = f"template{held}"
        else:
            raise DirectiveError(place, f"`{word.strip()}` is not a part of {name}")
    if not first:
        return what + edges
    return what + (f" distribute{spread(first)}" if name == "DISTRIBUTE" else f" align({with_small(first)})") + edges
