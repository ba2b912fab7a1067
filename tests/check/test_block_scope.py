"""Variables of blocks that share their place in memory: each is a new one where its block begins."""

from __future__ import annotations

from pathlib import Path

from weft.check import CheckRequest, check_program

SOURCE = """\
#define N 16
#pragma dvm array distribute[block]
double a[N];

static inline void earlier(int t)
{
    double s = 0;
    #pragma dvm actual(s)
    #pragma dvm region out(a)
    {
    #pragma dvm parallel([i] on a[i]) reduction(sum(s))
    for (int i = 0; i < N; i++) { a[i] = t; s += t; }
    }
}

static inline void later(void)
{
    double table[3] = {1, 2, 3};
    #pragma dvm region inout(a)
    {
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++) a[i] += table[i % 3];
    }
    table[1] = 5;
    #pragma dvm actual(table)
    #pragma dvm region inout(a)
    {
    #pragma dvm parallel([i] on a[i])
    for (int i = 0; i < N; i++) a[i] += table[i % 3];
    }
}

int main(void)
{
    earlier(3);
    later();
    for (int t = 0; t < 3; t++) {
        double s = t;
        double begun[3] = {t, 1, 2};
        struct { float x[2]; } pairs[2];
        for (int k = 0; k < 4; k++) pairs[k / 2].x[k % 2] = k * t;
        #pragma dvm region inout(a)
        {
        #pragma dvm parallel([i] on a[i]) reduction(sum(s))
        for (int i = 0; i < N; i++) { a[i] += begun[i % 3] + pairs[i % 2].x[0]; s += a[i]; }
        }
    }
    {
        long other[4] = {1, 2, 3, 4};
        #pragma dvm region inout(a)
        {
        #pragma dvm parallel([i] on a[i])
        for (int i = 0; i < N; i++) a[i] += other[i % 4];
        }
    }
    return 0;
}
"""


def findings(tmp_path: Path, source: str) -> list[tuple[str, int]]:
    (program := tmp_path / "program.cdv").write_text(source)
    return [(one.kind, one.sites[0].line) for one in check_program(CheckRequest([program]), tmp_path).findings]


def test_a_variable_of_a_block_is_a_new_one_for_the_device_each_time_its_block_begins(tmp_path: Path) -> None:
    assert findings(tmp_path, SOURCE) == []


def test_a_table_that_lies_where_an_inlined_function_had_a_variable_is_followed(tmp_path: Path) -> None:
    faulty = SOURCE.replace("    #pragma dvm actual(table)\n", "\n")
    line = faulty.splitlines().index("    table[1] = 5;") + 6
    assert findings(tmp_path, faulty) == [("stale-copy", line)]
