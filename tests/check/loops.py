"""Random C-DVMH programs for rows of iterations: with branches, small loops within, a fault here and there."""

from __future__ import annotations

import random

SIZE = 26
HEAD = f"""\
#include <stdio.h>
#define N {SIZE}
#pragma dvm array distribute[block][block]
double A[N][N];
#pragma dvm array align([i][j] with A[i][j])
double B[N][N];
#pragma dvm array align([i][j] with A[i][j])
float F[N][N];
#pragma dvm array align([i][j] with A[i][j])
int K[N][N];
#pragma dvm array align([i][j][] with A[i][j])
double C[N][N][5];
double V[N][5], W[N];
float X[N];
int at[N];
int g1, g2 = 7, *way = &g2;
unsigned u1 = 4294967288u, u2 = 12;
long l1 = -3, l2 = 11;
unsigned long q1 = 18446744073709551610ul, q2 = 9;

volatile int taken;
int __real_weft_check_row(void *row, const unsigned long *saved);
__attribute__((no_sanitize("thread"))) int __wrap_weft_check_row(void *row, const unsigned long *saved)
{{
    int runs = __real_weft_check_row(row, saved);
    taken += runs;
    return runs;
}}
"""
START = """\
    for (i = 0; i < N; i++) {
        at[i] = i, W[i] = i, X[i] = 1;
        for (m = 0; m < 5; m++)
            V[i][m] = m;
    }
#pragma dvm parallel([i][j] on A[i][j])
    for (i = 0; i < N; i++)
        for (j = 0; j < N; j++) {
            A[i][j] = i + j;
            F[i][j] = 1, K[i][j] = j;
            for (m = 0; m < 5; m++)
                C[i][j][m] = m;
        }
"""


class Body:
    """Writes the body of one loop; `wrong` is how likely an access is one that it should not be."""

    def __init__(self, chance: random.Random, wrong: float, edge: int) -> None:
        self.chance, self.wrong, self.edge = chance, wrong, edge
        self.inner, self.outer = "j", "i"
        self.written = chance.choice(["A", "B", "F", "K", "C"] if chance.random() < 0.9 else ["V", "W"])
        self.loops = 0

    def pick(self, *texts: str) -> str:
        return self.chance.choice(texts)

    def fault(self) -> bool:
        return self.chance.random() < self.wrong

    def index(self, name: str) -> str:
        edge = 2 if self.fault() else self.edge
        shift = self.chance.randint(-edge, edge) if self.chance.random() < 0.4 else 0
        return f"{name}{shift:+d}" if shift else name

    def element(self, name: str, *, write: bool) -> str:
        i, j = (self.outer, self.inner)
        if not write or self.fault():
            i, j = self.index(i), self.index(j)
        if self.fault():
            j = f"at[{j}]"
        if name in ("C", "V"):
            last = "m" if self.loops else str(self.chance.randrange(5))
            return f"C[{i}][{j}][{last}]" if name == "C" else f"V[{j}][{last}]"
        return f"{name}[{j}]" if name in ("W", "X") else f"{name}[{i}][{j}]"

    def value(self) -> str:
        kind = self.chance.random()
        if kind < 0.15:
            return self.pick("1", "2.5", "t", "g1", "*way", "j", "i", "u2", "p[2]")
        name = self.pick("A", "B", "F", "K", "C", "V", "W", "X")
        if name == self.written and not self.fault():
            return self.element(name, write=True)
        return self.element(name, write=False)

    def condition(self) -> str:
        i, j, number = self.outer, self.inner, self.chance.randrange(SIZE)
        sign = self.pick("<", "<=", ">", ">=", "==", "!=")
        whole = self.pick(
            f"{j} {sign} {number}",
            f"{i} {sign} {number}",
            f"{j} {sign} {i}",
            f"{j} {sign} g2",
            f"{i} {sign} g2 - 2",
            f"{j} {sign} *way + {self.chance.randrange(9)}",
            f"3 * {j} {sign} {number} + {i}",
            f"(unsigned){j} - {number} {sign} 5u",
            f"u1 + {j} {sign} u2",
            f"(long){j} * 2 {sign} l2 - l1",
            f"{j} + l1 {sign} 0",
            f"q1 + {j} {sign} q2",
            f"(unsigned long){j} {sign} q2",
            f"(float){j} {sign} 5",
            f"(({j} + {i}) & 1)",
            f"A[{i}][{j}] {sign} {number}",
            f"g1 {sign} 1",
        )
        if self.chance.random() < 0.25:
            return f"{whole} {self.pick('&&', '||')} {self.condition()}"
        return whole

    def statement(self, depth: int) -> str:
        kind = self.chance.random()
        if kind < 0.25 and depth:
            other = f" else {{ {self.block(depth - 1)} }}" if self.chance.random() < 0.6 else ""
            return f"if ({self.condition()}) {{ {self.block(depth - 1)} }}{other}"
        if kind < 0.4 and not self.loops:
            self.loops = 1
            inside = self.block(0)
            self.loops = 0
            return f"for (m = 0; m < {self.pick('3', '5')}; m++) {{ {inside} }}"
        if kind < 0.5:
            return f"t = {self.value()};"
        if kind < 0.57:
            return f"p[{'m' if self.loops else self.chance.randrange(5)}] = {self.value()};"
        if kind < 0.62:
            return self.pick(f"sum += {self.value()};", f"top = {self.value()} > top ? 9 : top;")
        if self.fault():
            return self.pick(f"g2 = {self.pick('7', '3', self.inner)};", f"*way = {self.inner};", "g1 = 1;", "u2 = 12;")
        if self.fault():
            return f"{self.element(self.pick('A', 'B', 'F', 'C'), write=True)} = {self.value()};"
        return f"{self.element(self.written, write=True)} {self.pick('=', '=', '+=')} {self.value()};"

    def block(self, depth: int) -> str:
        return " ".join(self.statement(depth) for _ in range(self.chance.randrange(1, 4)))


def loop(chance: random.Random, wrong: float) -> str:
    """One parallel loop."""
    edge = chance.choice([0, 1, 2, 2])
    body = Body(chance, wrong, edge)
    within = chance.random() < 0.3
    first, last = str(edge), f"N - {edge}"
    rising = chance.random() < 0.85
    step = chance.choice(["j++", "j++", "j++", "j += 2"])
    head = f"for (j = {first}; j < {last}; {step})" if rising else f"for (j = {last} - 1; j >= {first}; j--)"
    private, reduced = "m, t, p", "sum(sum), max(top)"
    clauses = chance.choice(["", ", shadow_renew(A, B)", ", shadow_renew(A, B, F, K, C)", ", across(A[1:1][1:1])"])
    start = "" if body.fault() else "t = 0; " + " ".join(f"p[{n}] = 0;" for n in range(5))
    place = "A[i][j]" if chance.random() < 0.7 else ""
    on = f" on {place}" if place else ""
    if not on and "renew" in clauses:
        clauses = ""
    text = f"    for (i = {first}; i < {last}; i++)\n"
    if within:
        on = " on A[i][]" if on else ""
        text = f"#pragma dvm parallel([i]{on}) private(j, {private}), reduction({reduced}){clauses}\n{text}"
        return f"{text}    {{\n        {start}\n        {head} {{\n            {body.block(2)}\n        }}\n    }}\n"
    text = f"#pragma dvm parallel([i][j]{on}) private({private}), reduction({reduced}){clauses}\n{text}"
    return f"{text}        {head} {{\n            {start}\n            {body.block(2)}\n        }}\n"


def program(seed: int, loops: int = 6) -> str:
    """A program; that of a seed is always the same one."""
    chance = random.Random(seed)
    wrong = chance.choice([0.0, 0.02, 0.1])
    parts = [loop(chance, wrong) for _ in range(loops)]
    functions = [
        f"static double f{n}(void)\n{{\n    int i, j, m;\n    double t, p[5], sum = 0, top = 0;\n{part}"
        "    return sum + top;\n}\n"
        for n, part in enumerate(parts)
    ]
    calls = "".join(f"        total += f{n}();\n" for n in range(loops))
    return (
        f"{HEAD}{''.join(functions)}int main(void)\n{{\n    int i, j, m, it;\n    double total = 0;\n{START}"
        f"    for (it = 0; it < 3; it++) {{\n{calls}        g1 = it;\n    }}\n"
        '    printf("%d\\n", taken);\n    return total == 0.125;\n}\n'
    )
