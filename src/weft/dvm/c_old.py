"""Translate the old form of C-DVM, with directives in the macro `DVM(…)` and loops in macros, to the current form."""

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


def is_old_form(text: str) -> bool:
    """Return whether a source defines the macro DVM."""
    return re.search(r"^[ \t]*#[ \t]*define[ \t]+DVM\(", text, re.MULTILINE) is not None


def find_closing_bracket(text: str, opening: int) -> int:
    """Return the index of the bracket that closes the one at index `opening`; the length of the text if none does."""
    depth = 0
    for place in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if not depth:
            return place
    return len(text)


def expand_loop_macros(source_text: str) -> str:
    """Return the source with each use of a macro that defines a loop replaced by the macro's definition. The line
    numbers do not change.
    """
    loops = {match[1]: ([one.strip() for one in match[2].split(",")], match[3]) for match in LOOP.finditer(source_text)}
    if not loops:
        return source_text
    defines = [match.span() for match in DEFINE.finditer(source_text)]
    use = re.compile(rf"\b({'|'.join(map(re.escape, loops))})\s*\(")
    parts: list[str] = []
    done = 0
    for match in use.finditer(source_text):
        if match.start() < done or any(low <= match.start() < high for low, high in defines):
            continue
        end = find_closing_bracket(source_text, match.end() - 1)
        names, body = loops[match[1]]
        given = [one.strip() for one in split_arguments(source_text[match.end() : end])]
        values = dict(zip(names, given, strict=False))
        written = re.sub(r"\w+", lambda word, values=values: values.get(word[0], word[0]), body)
        parts += [source_text[done : match.start()], written, "\n" * source_text.count("\n", match.start(), end)]
        done = end + 1
    return "".join([*parts, source_text[done:]])


def split_arguments(arguments: str) -> Iterator[str]:
    """Yield the arguments of a macro, split at the commas outside of brackets."""
    depth = start = 0
    for place, character in enumerate(arguments):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(character, 0)
        if character == "," and not depth:
            yield arguments[start:place]
            start = place + 1
    yield arguments[start:]


def find_directives(source_text: str) -> Iterator[tuple[int, int, str]]:
    """Yield (begin, end, content) of each `DVM(…)` outside macro definitions."""
    defines = [match.span() for match in DEFINE.finditer(source_text)]
    for match in MACRO.finditer(source_text):
        if not any(low <= match.start() < high for low, high in defines):
            end = find_closing_bracket(source_text, match.end() - 1)
            yield match.start(), end + 1, source_text[match.end() : end]


def modernize_directive(directive: str, position: Position) -> str | None:
    """Return a directive of the old C-DVM in the form of C-DVMH; None if the directive has no meaning for the checks.
    Raises DirectiveError if the directive is unknown.
    """
    words = " ".join(directive.split())
    keyword = re.match(r"\*?\s*(\w+)", words)
    name = keyword[1].upper() if keyword else ""
    rest = words[keyword.end() :].strip() if keyword else ""
    if name in SILENT or words.startswith("*"):
        return None
    if name in ("DISTRIBUTE", "ALIGN"):
        return modernize_declaration(name, rest, position)
    if name == "REDISTRIBUTE":
        return None if rest.startswith("(") else f"redistribute({modernize_distribution(rest)})"
    if name == "REALIGN":
        new = re.search(r"\bNEW\b", rest)
        array = re.sub(r"\bNEW\b", "", rest).strip()
        return (
            None if array.startswith("(") else f"realign({modernize_alignment(array)})" + (" new_value" if new else "")
        )
    if name == "PARALLEL":
        mapped, *clauses = (part.strip() for part in rest.split(";"))
        mapped = re.sub(r"\bON\b", "on", mapped)
        return f"parallel({mapped}) " + " ".join(modernize_clause(one, position) for one in clauses if one)
    if name == "TASK_REGION":
        tasks, *clauses = (part.strip() for part in rest.split(";"))
        return f"task_region {tasks} " + " ".join(modernize_clause(one, position) for one in clauses if one)
    if name in ("TASK", "ON"):
        return f"{name.lower()} {rest}"
    if name == "MAP":
        return "map " + re.sub(r"\bONTO\b", "onto", rest)
    if name in ("REMOTE_ACCESS", "INDIRECT_ACCESS"):
        held = drop_group(rest)
        return f"remote_access({held if name == 'REMOTE_ACCESS' else drop_inner_subscripts(held)})"
    if name in ("COPY", "COPY_START"):
        return "copy"
    if name == "CREATE_TEMPLATE":
        return f"create_template {rest}"
    if name == "CREATE_SHADOW_GROUP":
        group, colon, held = rest.partition(":")
        if not colon:
            raise DirectiveError(position, "CREATE_SHADOW_GROUP names a group and, after a colon, its arrays")
        return f"create_shadow_group {group.strip()}({modernize_renewals(held)})"
    if name in USES:
        return f"{name.lower()} {rest}"
    raise DirectiveError(position, f"`{name}` is not a directive of C-DVM")


def modernize_distribution(old: str) -> str:
    """Return a distribution such as `A[BLOCK][] ONTO T[1]` with its keywords in lower case, as C-DVMH spells them."""
    return re.sub(r"\b(BLOCK|GENBLOCK|WGTBLOCK|MULTBLOCK|ONTO)\b", lambda word: word[0].lower(), old)


def modernize_alignment(text: str) -> str:
    """Return an alignment such as `[i] WITH a[i]` with its keyword in lower case, as C-DVMH spells it."""
    return re.sub(r"\bWITH\b", "with", text)


def modernize_clause(clause: str, position: Position) -> str:
    """Return one clause of the old `PARALLEL` in the form of C-DVMH."""
    name, _, rest = clause.partition(" ")
    rest = rest.strip()
    kind = name.upper()
    if kind == "REDUCTION":
        group = re.match(r"\w+\s*:", rest)
        found = re.findall(r"(\w+)\s*\(([^()]*)\)", rest)
        listed = ", ".join(f"{operator.lower()}({names})" for operator, names in found)
        return f"reduction({group[0] + ' ' if group else ''}{listed})"
    if kind == "SHADOW_RENEW":
        return f"shadow_renew({modernize_renewals(rest)})"
    if kind in ("REMOTE_ACCESS", "ACROSS", "SHADOW_START", "SHADOW_WAIT"):
        return f"{kind.lower()}({rest})"
    if kind == "INDIRECT_ACCESS":
        return f"remote_access({drop_inner_subscripts(rest)})"
    if kind == "PIPE":
        return f"stage({rest})"
    raise DirectiveError(position, f"`{name}` is not a clause of PARALLEL")


def modernize_renewals(old: str) -> str:
    """Return a list of arrays with shadow edges to renew, in the form of C-DVMH."""
    corner = re.sub(r"\bCORNER\b", "(corner)", old)
    return ", ".join(re.sub(r"(\[\s*\])+", "", one).strip() for one in split_arguments(corner))


def drop_group(old: str) -> str:
    """Return the elements of a remote access without the group before them. In front of a statement, they are fetched
    there.
    """
    return re.sub(r"^\s*\w+\s*:", "", old)


def drop_inner_subscripts(arrays: str) -> str:
    """Return a list of arrays, as text, with the contents of all subscripts removed: `a[b[i]]` becomes `a[]`, so that
    it means the whole array.
    """
    found = []
    for one in split_arguments(arrays):
        depth = 0
        kept = []
        for character in one:
            depth -= character == "]"
            if not depth:
                kept.append(character)
            depth += character == "["
        found.append("".join(kept))
    return ",".join(found)


def modernize_declaration(keyword: str, argument: str, position: Position) -> str:
    """Return a DISTRIBUTE or ALIGN of the old C-DVM as the `array` or `template` directive of C-DVMH, with the SHADOW
    or TEMPLATE that follows a semicolon.
    """
    first, *more = (part.strip() for part in argument.split(";"))
    what, edges = "array", ""
    for part in filter(None, more):
        word, _, held = part.partition("[")
        held = held and f"[{held}"
        if word.strip() == "SHADOW":
            edges = f" shadow{held}"
        elif word.strip() == "TEMPLATE":
            what = f"template{held}"
        else:
            raise DirectiveError(position, f"`{word.strip()}` is not a part of {keyword}")
    if not first:
        return what + edges
    return (
        what
        + (
            f" distribute{modernize_distribution(first)}"
            if keyword == "DISTRIBUTE"
            else f" align({modernize_alignment(first)})"
        )
        + edges
    )
