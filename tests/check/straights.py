"""Random functions without a loop, called again and again: what they compute shows all that their copies change."""

from __future__ import annotations

import random

HEAD = """\
#include <stdio.h>
#pragma dvm array distribute[block]
double a[16];
double x[16][16][5], y[16][16];
float f[16][16];
int at[16][16];
long wide[16];
int rows;

void __real_weft_check_row_exit(void *row, int places);
__attribute__((no_sanitize("thread"))) void __wrap_weft_check_row_exit(void *row, int places)
{
    rows++;
    __real_weft_check_row_exit(row, places);
}

"""
MAIN = """\
int main(void)
{
    double told = 0;
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < 16; i++)
        a[i] = i;
    for (int i = 0; i < 16; i++) {
        wide[i] = 3 * i;
        for (int j = 0; j < 16; j++) {
            y[i][j] = i - j, f[i][j] = i + 2 * j, at[i][j] = i ^ j;
            for (int m = 0; m < 5; m++)
                x[i][j][m] = i + 0.5 * j - m;
        }
    }
    for (int k = 0; k < 30; k++)
        told = told / 2 + called(k % 5, 1 + k % 3, k % 4, k % 7, k % 2 ? y[k % 8] : y[8], k);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            told += (i + 1) * y[i][j] + f[i][j] + at[i][j] * j;
            for (int m = 0; m < 5; m++)
                told += (m + j) * x[i][j][m];
        }
    for (int i = 0; i < 16; i++)
        told += i * wide[i];
    printf("%d %.17g\\n", rows, told);
    return 0;
}
"""


def program(seed: int) -> str:
    """A program whose function `called` has one row, or some."""
    chance = random.Random(seed)
    index = ("i", "j", "i + 1", "j + 2", "l", "l + 3", "u", "3", "i + j", "(int)l + i", "u + 1")

    def place() -> str:
        one, two = chance.choice(index), chance.choice(index)
        return chance.choice(
            [f"x[{one}][{two}][{chance.randrange(5)}]"] * 4
            + [f"y[{one}][{two}]"] * 2
            + [f"f[{one}][{two}]", f"p[{one}]"]
        )

    def statement() -> str:
        return chance.choice(
            [f"{place()} = 0.25 * {place()} - {place()} * t + n;"] * 5
            + [
                f"t = 0.5 * {place()} + {place()};",
                f"n += at[{chance.choice(index)}][j];",
                f"at[i][{chance.choice(index)}] = n & 7;",
                f"wide[{chance.choice(index)}] += n;",
                "s += t;",
                f"w = {place()}; {place()} = w / 3;",
                "i++;" if chance.random() < 0.2 else "n ^= 5;",
            ]
        )

    body = "\n    ".join(statement() for _ in range(chance.randrange(40, 80)))
    return (
        f"{HEAD}__attribute__((noinline)) double called(int i, int j, long l, unsigned u, double *p, int n)\n{{\n"
        f"    double s = n, t = 1, w = 2;\n    {body}\n"
        f"    return s + t + w + i + n + (n % 3 ? l : j * u) + x[i][j][0];\n}}\n\n{MAIN}"
    )
