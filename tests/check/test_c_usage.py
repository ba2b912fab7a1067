"""C-DVMH programs that cannot be checked: one line each, with file, line and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.check import CheckRequest, check_program, mark_sources
from weft.errors import UsageError

ARRAY = "#pragma dvm array distribute[block]\ndouble a[9];\n"


def complaint(text: str, folder: Path) -> str:
    path = folder / "p.cdv"
    path.write_text(text)
    built = folder / "built"
    built.mkdir()
    with pytest.raises(UsageError) as caught:
        check_program(CheckRequest((path,), timeout=20), built)
    told = str(caught.value)
    assert "\n" not in told
    assert told.startswith(f"{path}:")
    return told.removeprefix(f"{path}:")


def loop(directive: str, before: str = ARRAY) -> str:
    body = f"    #pragma dvm {directive}\n    for (int i = 0; i < 9; i++)\n        a[i] = i;\n"
    return f"{before}int main(void)\n{{\n{body}}}\n"


def test_a_loop_on_an_array_without_distribution(tmp_path: Path) -> None:
    told = complaint(loop("parallel([i] on a[i])", "double a[9];\n"), tmp_path)
    assert told.startswith("4:33: `a` in `on` has no distribution; put `#pragma dvm array")


def test_a_name_of_a_header_that_was_not_found(tmp_path: Path) -> None:
    told = complaint(loop("actual(b)", '#include "parts/b.h"\n' + ARRAY), tmp_path)
    wanted = "`b` is not declared here; declare it before the directive (or with -I name the folder of parts/b.h, which"
    assert told.startswith(f"6:24: {wanted}")


def test_a_loop_on_an_array_whose_distribution_never_came(tmp_path: Path) -> None:
    told = complaint(loop("parallel([i] on a[i])", "#pragma dvm array\ndouble a[9];\n"), tmp_path)
    assert told.startswith("5:") and "distribute or align it first" in told


def test_a_loop_on_the_wrong_number_of_dimensions(tmp_path: Path) -> None:
    assert complaint(loop("parallel([i] on a[i][0])"), tmp_path) == "5:33: `a` has 1 dimension; `on` names 2"


def test_a_parallel_before_no_loop(tmp_path: Path) -> None:
    text = ARRAY + "int main(void)\n{\n    #pragma dvm parallel([i] on a[i])\n    a[0] = 1;\n}\n"
    assert complaint(text, tmp_path).startswith("5:17: `parallel([i])` is not before a `for`; put it right before")


def test_a_nest_that_is_not_deep_enough(tmp_path: Path) -> None:
    told = complaint(loop("parallel([i][j] on a[i])"), tmp_path)
    assert told == "5:17: `parallel([i][j])` needs 2 loops, one directly in the other; here are 1"


def test_a_loop_over_another_variable(tmp_path: Path) -> None:
    told = complaint(loop("parallel([k] on a[k])"), tmp_path)
    assert told.startswith(
        "6:5: the loop over `i` stands where `parallel([k])` names `k`; name the loops from the outer"
    )


def test_an_array_directive_before_no_declaration(tmp_path: Path) -> None:
    text = "int main(void)\n{\n    #pragma dvm array distribute[block]\n    return 0;\n}\n"
    assert complaint(text, tmp_path).startswith("3:17: the directive is not before a declaration")


def test_a_distribution_of_more_dimensions_than_the_array_has(tmp_path: Path) -> None:
    text = "#pragma dvm array distribute[block][block]\ndouble a[9];\nint main(void) { return 0; }\n"
    assert complaint(text, tmp_path) == "1:13: `a` has 1 dimension; the directive names 2"


def test_a_name_that_is_declared_nowhere(tmp_path: Path) -> None:
    told = complaint(loop("parallel([i] on a[i]) private(t)"), tmp_path)
    assert told == "5:47: `t` is not declared here; declare it before the directive"


def test_inherit_of_what_is_no_parameter(tmp_path: Path) -> None:
    text = "#pragma dvm inherit(b)\nvoid f(double *a) { }\nint main(void) { return 0; }\n"
    assert complaint(text, tmp_path) == "1:13: `b` in `inherit` is not a parameter of the function after it"


def test_an_unknown_directive(tmp_path: Path) -> None:
    assert complaint("\n  #pragma dvm paralel\nint x;\n", tmp_path).startswith(
        "2:15: `paralel` is not a directive of C-DVMH"
    )


def test_a_program_that_does_not_compile_has_its_own_line(tmp_path: Path) -> None:
    text = loop("parallel([i] on a[i])").replace("a[i] = i;", "a[i] = nothing;")
    told = complaint(text, tmp_path)
    assert told.startswith("7: the program does not compile: ") and "nothing" in told


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.cdv"):
        check_program(CheckRequest((tmp_path / "none.cdv",)), tmp_path)


def test_lines_and_columns_stay_those_of_the_program(tmp_path: Path) -> None:
    """A word of the marked copy stands in the line and column that its own `#line` gives it."""
    path = tmp_path / "p.cdv"
    text = loop("parallel([i] on a[i]) reduction(sum(s))", ARRAY + "double s;\n").replace(
        "a[i] = i;", "{ a[i] = i; s += ünter; }"
    )
    path.write_text(text)
    (marked,), _ = mark_sources([path])
    wanted = [
        (n, line.encode().index("ünter".encode())) for n, line in enumerate(text.split("\n"), 1) if "ünter" in line
    ]
    number, found = 0, []
    for line in marked.text.split("\n"):
        if line.startswith("#line"):
            number = int(line.split()[1])
            continue
        if "ünter" in line:
            found.append((number, line.encode().index("ünter".encode())))
        number += 1
    assert found == wanted


def test_headers_with_directives_are_part_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "grid.h").write_text("#pragma once\n#pragma dvm array distribute[block]\nextern double a[9];\n")
    (tmp_path / "grid.c").write_text('#include "grid.h"\n#include "grid.h"\ndouble a[9];\n')
    (tmp_path / "main.c").write_text(
        '#include "grid.h"\nint main(void)\n{\n'
        "    #pragma dvm parallel([i] on a[i])\n    for (int i = 0; i < 9; i++)\n        a[i] = i;\n"
        "    #pragma dvm parallel([i] on a[i])\n    for (int i = 1; i < 9; i++)\n        a[i] = a[i - 1];\n}\n"
    )
    built = tmp_path / "built"
    built.mkdir()
    findings = check_program(CheckRequest((tmp_path / "main.c", tmp_path / "grid.c"), timeout=20), built).findings
    assert [(f.kind, f.sites[0].line, f.facts()["variable"]) for f in findings] == [("loop-dependence", 9, "a")]


def test_odd_c_around_directives_is_marked_and_silent(tmp_path: Path) -> None:
    findings = check_program(CheckRequest((Path(__file__).parent / "dvm" / "odd.cdv",), timeout=20), tmp_path).findings
    assert not findings, "\n".join(finding.message for finding in findings)
