"""Random programs of loops over floats and doubles, with more values alive than registers: to compare compilations."""

from __future__ import annotations

import random

_TYPES = ("float", "double")


class _Writer:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._arrays = [(f"a{n}", self._random.choice(_TYPES)) for n in range(5)]
        self._values: list[tuple[str, str]] = []

    def _expression(self, depth: int = 0) -> str:
        choose, kind = self._random.choice, self._random.random()
        if depth > 4 or kind < 0.25:
            return f"{choose(self._arrays)[0]}[{choose(('i', 'i+1', 'i+2', '(i*7)%64', 'idx[i]'))}]"
        if kind < 0.4:
            return choose(self._values)[0]
        if kind < 0.45:
            return f"({choose(_TYPES)})({self._expression(depth + 1)})"
        if kind < 0.5:
            a, b, c, d = (self._expression(depth + 1) for _ in range(4))
            return f"({a} < {b} ? {c} : {d})"
        if kind < 0.54:
            return f"sqrt(fabs({self._expression(depth + 1)}))"
        if kind < 0.57:
            return f"st.{choose('xy')}"
        if kind < 0.6:
            return f"(double)cnt[{choose(('i%4', '(i+1)%4'))}]"
        return f"({self._expression(depth + 1)} {choose('+-*')} {self._expression(depth + 1)})"

    def _statement(self) -> str:
        choose, kind = self._random.choice, self._random.random()
        if kind < 0.4:
            return f"{choose(self._values)[0]} = {self._expression()};"
        if kind < 0.7:
            return f"{choose(self._arrays)[0]}[{choose(('i', 'i+2', 'idx[i]'))}] = {self._expression()};"
        if kind < 0.78:
            return f"loc[i & 7] += {self._expression()};"
        if kind < 0.84:
            return f"lf[i & 3] = {self._expression()}; st.y += lf[(i + 1) & 3];"
        if kind < 0.9:
            return f"st.x = st.x * 0.5 + {self._expression()};"
        test = f"{self._expression()} > {self._expression()}"
        return f"if ({test}) {{ cnt[i & 3]++; {choose(self._values)[0]} = {self._expression()}; }}"

    def _function(self, name: str) -> list[str]:
        self._values = [(f"v{n}", self._random.choice(_TYPES)) for n in range(self._random.randint(2, 7))]
        return [
            f"__attribute__((noinline)) static double {name}(struct S *sp, int n) {{",
            "struct S st = *sp; double loc[8]; float lf[4];",
            *(f"{kind} {value} = {self._random.random():.3f};" for value, kind in self._values),
            "for (int q = 0; q < 8; q++) loc[q] = q;", "for (int q = 0; q < 4; q++) lf[q] = 1.f / (q + 1);",
            "for (int i = 0; i < n; i++) {",
            *(self._statement() for _ in range(self._random.randint(3, 9))),
            *(f"if (!({v} < 1e3 && {v} > -1e3)) {v} = ({kind})0.25;" for v, kind in self._values),
            "if (!(st.x < 1e3 && st.x > -1e3)) st.x = 1;", "if (!(st.y < 1e3f && st.y > -1e3f)) st.y = 1;",
            "}", "double s = st.x + st.y;", "for (int q = 0; q < 8; q++) s += loc[q] + lf[q & 3];", "*sp = st;",
            f"return s + {' + '.join(value for value, _ in self._values)};", "}",
        ]  # fmt: skip

    def program(self) -> str:
        """The text of the program; it prints all that it has computed, bit by bit."""
        names = [f"f{n}" for n in range(3)]
        lines = [
            "#include <stdio.h>", "#include <math.h>", "struct S { double x; float y; };",
            "static int idx[70], cnt[4];",
            *(f"static {kind} {name}[80];" for name, kind in self._arrays),
        ]  # fmt: skip
        for name in names:
            lines += self._function(name)
        lines += ["int main(void) {", "for (int i = 0; i < 70; i++) idx[i] = (i * 13) % 64;"]
        for n, (name, kind) in enumerate(self._arrays):
            lines.append(f"for (int i = 0; i < 80; i++) {name}[i] = ({kind})((i * {n + 3} % 17) / 7.0 - 1);")
        lines += ["struct S s = {1, 2};", "for (int k = 0; k < 3; k++) {"]
        lines += [f'printf("%a\\n", {name}(&s, {self._random.choice((1, 3, 17, 60))}));' for name in names]
        for name, _ in self._arrays:
            bounded = f"if (!({name}[i] < 100 && {name}[i] > -100)) {name}[i] = i / 40.0; t += {name}[i];"
            lines.append(f'{{ double t = 0; for (int i = 0; i < 80; i++) {{ {bounded} }} printf("%a\\n", t); }}')
        lines += ["}", 'printf("%a %a %d %d\\n", s.x, (double)s.y, cnt[0], cnt[3]);', "return 0;", "}"]
        return "\n".join(lines) + "\n"


def program(seed: int) -> str:
    """The program of a seed, in C."""
    return _Writer(seed).program()
