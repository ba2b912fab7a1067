"""The configuration of a value trace: what to keep of which loop and probe. It is TOML, which a first run writes."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from weft.base.lazy import dataclass
from weft.errors import UsageError
from weft.native.headers.rules import ValuesLevel
from weft.native.headers.value_format import ValueForm
from weft.safety.folders import read_regular
from weft.values.folder import FOLDER

LEVELS: Final = {
    "none": ValuesLevel.NONE, "minimal": ValuesLevel.MINIMAL,
    "modifications": ValuesLevel.CHANGES, "full": ValuesLevel.FULL,
}  # fmt: skip
FORMS: Final = {
    "values": ValueForm.VALUES, "changes": ValueForm.CHANGES,
    "hashes": ValueForm.HASHES, "statistics": ValueForm.STATISTICS,
}  # fmt: skip
SCOPES: Final = ("file", "procedure", "loop", "region", "probe")
_KEPT: Final = ("level", "arrays", "iterations", "ranks", "every")
_JUDGED: Final = ("exact", "absolute", "relative", "ulps", "nan")
_KEYS: Final = {
    "file": _KEPT, "procedure": _KEPT, "loop": ("level", "iterations", "ranks"), "region": ("level", "ranks"),
    "probe": _KEPT + _JUDGED,
}  # fmt: skip
_PROGRAM: Final = ("level", "arrays", "ranks", "every", "limit", *_JUDGED)
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_FIRST, _LAST = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of a configuration; `level` is -1 and `form` 0 if the entry does not set them."""

    scope: str
    name: str
    level: int = -1
    form: int = 0
    first: int = _FIRST
    last: int = _LAST
    step: int = 1
    every: int = 1
    ranks: str = "*"

    def plan_line(self) -> str:
        """Return the rule as a line of words between tabs, which the recorded program reads (values/native/rules.c)."""
        words = (self.scope, self.name, self.level, self.form, self.first, self.last, self.step, self.every, self.ranks)
        return "\t".join(map(str, words))


@dataclass(frozen=True, slots=True)
class Configuration:
    """All entries of a configuration; `judged` are its tolerances by probe, under "" those for all probes."""

    rules: list[Rule] = field(default_factory=list)
    limit: int = 1 << 30
    judged: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: str = ""

    def plan_text(self) -> str:
        """Return the text of the file that the recorded program reads."""
        return "\n".join([f"limit\t{self.limit}", *(rule.plan_line() for rule in self.rules)]) + "\n"

    @property
    def named_entries(self) -> int:
        """Return how many entries name a part of the program: a loop, a probe, a procedure, a file."""
        return sum(rule.scope in SCOPES for rule in self.rules)

    def find_unknown_entries(self, known: Mapping[str, Iterable[str]]) -> list[str]:
        """Return a sentence for each entry of the configuration whose name the program does not have. `known`: the
        program's names by scope.
        """
        found = []
        for rule in self.rules:
            names = sorted(set(known.get(rule.scope, ())))
            if rule.scope not in SCOPES or rule.name in names or (rule.scope == "file" and _has_path(rule.name, names)):
                continue
            found.append(f"{self.source}: the run has no {rule.scope} {rule.name!r}{suggest_names(rule.name, names)}")
        return found


def _has_path(name: str, paths: Iterable[str]) -> bool:
    return any(path == name or path.endswith(f"/{name}") for path in paths)


def suggest_names(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: `; the nearest is 'x'`, or a list of some known names. Empty
    if there are none.
    """
    names = list(known)
    close = difflib.get_close_matches(word, names, 1, 0.5)
    if close:
        return f"; the nearest is {close[0]!r}"
    return f"; there are {', '.join(map(repr, names[:8]))}" if names else ""


def read_configuration(path: Path, run: Path | None = None) -> Configuration:
    """Read a configuration from a TOML file. Raises UsageError, which names the wrong entry, if it is invalid.

    `run`: the run directory that holds the file; others may have written there, so that only a regular file is read.
    Without `run`, the user names the file, which may be a pipe.
    """
    try:
        text = (path.read_bytes() if run is None else read_regular(path, run)).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the configuration {path} cannot be read: {error}") from error
    try:
        document = tomllib.loads(text)
        _check_integers(document)
    except (ValueError, RecursionError) as error:  # also numbers of more digits than Python reads
        raise UsageError(f"{path} is not TOML: {error}") from error
    return _Reader(str(path)).read_entries(document)


def _check_integers(value: object) -> None:
    """Raise ValueError for an integer of more than 64 bits, which TOML does not have and no message can print."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _check_integers(part)
    elif isinstance(value, int) and value.bit_length() > 64:
        raise ValueError("a whole number has more than 64 bits")


def read_tolerances(run: Path, overrides: Mapping[str, Any], config: Path | None = None) -> dict[str, dict[str, Any]]:
    """Return the tolerances of a comparison by probe, with those for all probes under "".

    `overrides`: tolerances for all probes, which replace those of the configuration. `config`: the configuration's
    file, by default the run's probes.toml. Raises UsageError for an unknown word or an invalid number.
    """
    checked = _Reader("the comparison").check_tolerance_settings(overrides)
    path = config or run / FOLDER / "probes.toml"
    known = read_configuration(path, None if config else run).judged if config is not None or path.exists() else {}
    own = {name: {**settings, **checked} for name, settings in known.items()}
    return {**own, "": {**known.get("", {}), **checked}}


class _Reader:
    """Read the entries of one document."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.judged: dict[str, dict[str, Any]] = {}

    def read_entries(self, document: dict[str, Any]) -> Configuration:
        """Return the configuration that a TOML document describes. Raises an error that names the wrong entry."""
        top = {key: value for key, value in document.items() if not isinstance(value, dict)}
        self._check_keys(top, (*_PROGRAM, *SCOPES), "the program")
        limit = self._read_size(top.pop("limit", "1 GB"))
        rules = [self._read_rule("program", "", top)]
        for scope, entries in document.items():
            if not isinstance(entries, dict):
                continue
            if scope not in SCOPES:
                raise self._make_error(f"[{scope}] is not a kind of entry{suggest_names(scope, SCOPES)}")
            for name, entry in entries.items():
                if not isinstance(entry, dict):
                    raise self._make_error(f'[{scope}]: write [{scope}."{name}"], and the settings for it below')
                self._check_keys(entry, _KEYS[scope], f'[{scope}."{name}"]')
                rules.append(self._read_rule(scope, name, entry))
        return Configuration(rules, limit, self.judged, self.source)

    def check_tolerance_settings(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return settings of tolerances as they are. Raises an error for another setting or an invalid value."""
        self._check_keys(settings, _JUDGED, "tolerances")
        return self._check_tolerances(settings, "tolerances")

    def _make_error(self, text: str) -> UsageError:
        return UsageError(f"{self.source}: {text}")

    def _check_keys(self, entry: Mapping[str, Any], known: Iterable[str], where: str) -> None:
        """Raise an error that names the first key of an entry that is not among `known`. `where`: the entry, for the
        message.
        """
        for key in entry:
            if key not in known:
                raise self._make_error(f"{where}: {key!r} is not a setting{suggest_names(key, known)}")

    def _read_rule(self, scope: str, name: str, entry: Mapping[str, Any]) -> Rule:
        """Return the rule that an entry of the configuration describes, and note the entry's tolerances in `judged`.
        The rule is for a probe, loop or array of this name, or for the whole program ("").
        """
        if re.search(r"[\t\n\0]", name):
            raise self._make_error(f"{name!r} contains a tab or a line break, which no name may contain")
        where = f'[{scope}."{name}"]' if name else "the program"
        judged = {key: entry[key] for key in _JUDGED if key in entry}
        if judged:
            self.judged[name] = self._check_tolerances(judged, where)
        first, last, step = self._read_iterations(entry.get("iterations"), where)
        return Rule(
            scope,
            name,
            self._read_word(entry, "level", LEVELS, -1, where),
            self._read_word(entry, "arrays", FORMS, 0, where),
            first,
            last,
            step,
            self._read_every(entry.get("every", 1), where),
            self._read_ranks(entry.get("ranks"), where),
        )

    def _read_word(self, entry: Mapping[str, Any], key: str, known: Mapping[str, int], default: int, where: str) -> int:
        """Return the number that belongs to the word under an entry's key; `default` if the entry does not have the
        key. `known`: the allowed words with their numbers. Raises an error for any other word.
        """
        word = entry.get(key)
        if word is None:
            return default
        if not isinstance(word, str) or word not in known:
            raise self._make_error(
                f"{where}: {key} = {word!r} is not one of {', '.join(known)}{suggest_names(str(word), known)}"
            )
        return int(known[word])

    def _read_every(self, value: object, where: str) -> int:
        """Return the value of the setting `every`, a number from 1 on. Raises an error for any other value."""
        if type(value) is not int or not 1 <= value <= _LAST:
            raise self._make_error(f"{where}: every = {value!r} is not a number of 1 or more")
        return value

    def _read_iterations(self, text: object, where: str) -> tuple[int, int, int]:
        """Return (first, last, step) of a text `first:last:step`; the last iteration is included. Parts may be left
        out; a single number means that iteration only. Without a text, return all iterations.
        """
        if text is None:
            return _FIRST, _LAST, 1
        words = [word.strip() for word in str(text).split(":")]
        if len(words) > 3 or not all(re.fullmatch(r"(-?[0-9]{1,19})?", word) for word in words):
            raise self._make_error(f"{where}: iterations = {text!r}: write first:last:step, such as 0:100:10")
        first = int(words[0]) if words[0] else _FIRST
        last = first if len(words) == 1 else int(words[1]) if words[1] else _LAST
        step = int(words[2]) if len(words) == 3 and words[2] else 1
        if max(abs(first + 1), abs(last), step) > _LAST:
            raise self._make_error(f"{where}: iterations = {text!r} has a number that no loop can reach")
        if last < first or step < 1:
            raise self._make_error(
                f"{where}: iterations = {text!r} selects no iteration: the last one is before the first, or the step "
                "is 0"
            )
        return first, last, step

    def _read_ranks(self, text: object, where: str) -> str:
        """Return a list of ranks such as `0-3,8` without blanks; `*`, for all ranks, if there is no list."""
        if text is None:
            return "*"
        plain = re.sub(r"\s", "", str(text))
        if not re.fullmatch(r"[0-9]{1,9}(-[0-9]{1,9})?(,[0-9]{1,9}(-[0-9]{1,9})?)*", plain):
            raise self._make_error(f"{where}: ranks = {text!r}: write a list of ranks, such as 0-3,8")
        return plain

    def _read_size(self, text: object) -> int:
        """Return the number of bytes that a size such as `500 MB` means. Raises an error for any other text."""
        found = re.fullmatch(r"([0-9]{1,18})\s*([kmgt]?)i?b?", str(text).lower())
        size = int(found[1]) * _UNITS[found[2]] if found else 0
        if not 0 < size <= _LAST:
            raise self._make_error(f"limit = {text!r}: write a size, such as 500 MB")
        return size

    def _check_tolerances(self, entry: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the tolerances of an entry as they are. Raises an error that names the first wrong one."""
        for key, value in entry.items():
            if key == "nan" and value not in ("equal", "different"):
                raise self._make_error(f"{where}: nan = {value!r}: write equal or different")
            number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
            if key in ("absolute", "relative", "ulps") and not number:
                raise self._make_error(f"{where}: {key} = {value!r} is not a number of 0 or more")
            if key == "exact" and not isinstance(value, bool):
                raise self._make_error(f"{where}: exact = {value!r}: write true or false")
        return dict(entry)
