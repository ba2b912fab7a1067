"""The compiler's assembly, with what most accesses pass in place of a call (x86-64).

`call __tsan_read8` becomes a dozen instructions with a site of its own (`struct site` in
dataparallel/native/sites.h, whose offsets stand here too); only what they do not let pass calls the runtime. A call may
change the registers that are used here, so nothing must be kept.
"""

from __future__ import annotations

import platform
import re
from typing import Final

from weft.instrument import rows
from weft.native.headers import cells
from weft.native.headers.cells import SPACE4, SPACE8

POSSIBLE: Final = platform.machine() in ("x86_64", "AMD64")
SITE_BYTES: Final = 128
SPLIT: Final = cells.SPLIT - 2**32  # as a signed number of 32 bits
FOLD8: Final = cells.FOLD & ~7
FOLD4: Final = cells.FOLD & ~3

_CALL: Final = re.compile(r"^\tcallq?\t__tsan_(read|write)([48])(@PLT)?$", re.M)

_PASSES: Final = """\
\tmovq\t.Lweft{n}+8(%rip), %rax
\tmovq\t%rdi, %rcx
\tsubq\t.Lweft{n}+16(%rip), %rcx
\tsubq\t(%rax), %rcx
\tcmpq\t%rcx, .Lweft{n}+24(%rip)
\tjb\t.Lweft{n}s
\tmovabsq\t${fold8}, %rax
\tandq\t%rdi, %rax
\tmovabsq\t${space8}, %rcx
"""

_HALF: Final = """\
\tcmpl\t${split}, %edx
\tjne\t.Lweft{n}h
\tmovabsq\t${fold4}, %rax
\tandq\t%rdi, %rax
\taddq\t%rax, %rax
\tmovabsq\t${space4}, %rcx
\tmovl\t(%rax,%rcx), %edx
"""

_READ: Final = """\
\tmovl\t%edx, %esi
\tsubl\t.Lweft{n}+32(%rip), %esi
\tcmpl\t.Lweft{n}+36(%rip), %esi
\tjbe\t.Lweft{n}e
\tcmpl\tweft_now(%rip), %edx
\tje\t.Lweft{n}e
"""

# A read of what iterations share passes where it is noted, or another one was: only the first one is written down.
_NOTED: Final = """\
\tleaq\t.Lweft{n}(%rip), %rsi
\tcall\t.Lweft_noted
\tja\t.Lweft{n}e
"""

# `above` says that it passes. rsi: the site, rax+rcx: the cell, edx: when it was written; all but rdi may be changed.
_NOTING: Final = """

\t.section\t.text.weft_rows,"ax",@progbits
.Lweft_noted:
\tcmpb\t$0, 48(%rsi)
\tje\t.Lweft_judged
\tcmpl\t60(%rsi), %edx
\tjb\t.Lweft_judged
\tcmpl\t%edx, 56(%rsi)
\tjb\t.Lweft_judged
\tmovl\tweft_now+4(%rip), %esi
\tcmpl\t%esi, 4(%rax,%rcx)
\tja\t.Lweft_passed
\tmovl\tweft_now(%rip), %edx
\tmovl\t%edx, 4(%rax,%rcx)
\tcmpl\t%esi, %edx
.Lweft_passed:
\tret
.Lweft_judged:
\tcmpl\t%eax, %eax
\tret
"""

_WRITE: Final = """\
\tmovl\tweft_now(%rip), %esi
\tcmpl\t%esi, %edx
\tje\t.Lweft{n}e
\tsubl\t.Lweft{n}+40(%rip), %edx
\tcmpl\t.Lweft{n}+44(%rip), %edx
\tjb\t.Lweft{n}s
\tmovl\t%esi, (%rax,%rcx)
\tjmp\t.Lweft{n}e
"""

_ITERATION: Final = re.compile(r"^\tcallq?\tweft_check_iteration([23])(@PLT)?$", re.M)

# The loop's index is the one that the runtime expects: time and the homes of arrays go on (struct step).
_STEP: Final = """\
\tcmpq\t%{innermost}, weft_step(%rip)
\tjne\t.Lweft{n}s
\tcmpq\t%rdi, weft_step+16(%rip)
\tjne\t.Lweft{n}s
{second}\tmovq\tweft_step+8(%rip), %rax
\taddq\t%rax, weft_step(%rip)
\tincl\tweft_now(%rip)
\tmovdqa\tweft_homes(%rip), %xmm0
\tmovdqa\tweft_homes+16(%rip), %xmm1
\tpaddq\tweft_moves(%rip), %xmm0
\tpaddq\tweft_moves+16(%rip), %xmm1
\tmovdqa\t%xmm0, weft_homes(%rip)
\tmovdqa\t%xmm1, weft_homes+16(%rip)
\tjmp\t.Lweft{n}e
.Lweft{n}s:
\tcall\tweft_check_iteration{rank}
.Lweft{n}e:"""

_SECOND: Final = "\tcmpq\t%rsi, weft_step+24(%rip)\n\tjne\t.Lweft{n}s\n"

_SLOW: Final = """\
.Lweft{n}s:
\tleaq\t.Lweft{n}(%rip), %rsi
\tcall\tweft_check_slow_{what}{size}
.Lweft{n}e:"""


SHORTENED: Final = re.compile(r"^\tcall\tweft_check_slow_", re.M)
"""What stands after each hook that is written out."""

# What clang calls where gcc calls __tsan_...
_TRACED: Final = re.compile(r"\b__sanitizer_cov_(load|store)(1|2|4|8|16)\b")


def inline_hooks(assembly: str, *, gcc: bool = True) -> str:
    """Return a compiler's assembly in which inline code replaces the hooks (calls before memory accesses) for 4 and 8
    bytes. In the assembly of gcc, loops also get a second copy without hooks.
    """
    if not gcc:
        assembly = _TRACED.sub(lambda found: f"__tsan_{'read' if found[1] == 'load' else 'write'}{found[2]}", assembly)
    if not POSSIBLE:
        return assembly
    count = 0

    def inline_hook(found: re.Match[str]) -> str:
        """Return the inline code that takes the place of one call of a hook. `found`: the match of that call."""
        nonlocal count
        count += 1
        what, size = found[1], found[2]
        parts = [_PASSES, "\tmovl\t(%rax,%rcx), %edx\n"]
        if size == "4":
            # An unsplit cell of a write stands for more than is written: the runtime splits it.
            parts.append(_HALF if what == "read" else _HALF.replace("jne\t.Lweft{n}h", "jne\t.Lweft{n}s"))
            parts.append(".Lweft{n}h:\n" if what == "read" else "")
        parts.append(_READ if what == "read" else _WRITE)
        parts += [_NOTED] * (what == "read" and size == "8") + [_SLOW]
        return "".join(parts).format(
            n=count, what=what, size=size, split=SPLIT, fold8=FOLD8, fold4=FOLD4, space8=SPACE8, space4=SPACE4
        )

    steps = 0

    def inline_iteration_begin(found: re.Match[str]) -> str:
        """Return the inline code for one call that begins an iteration of a parallel loop."""
        nonlocal steps
        steps += 1
        name, three = f"i{steps}", found[1] == "3"
        return _STEP.format(
            n=name, rank=found[1], innermost="rdx" if three else "rsi", second=_SECOND.format(n=name) if three else ""
        )

    assembly, copies, described = _insert_loop_copies(assembly) if gcc else (assembly, "", "")
    made = (
        _ITERATION.sub(inline_iteration_begin, _CALL.sub(inline_hook, assembly)) + (_NOTING if count else "") + copies
    )
    sites = "".join(
        f".Lweft{n}:\n\t.quad\t0, weft_nowhere, 1, 0\n\t.zero\t{SITE_BYTES - 32}\n" for n in range(1, count + 1)
    )
    return f'{made}\n\t.section\t.data.weft_check,"aw"\n\t.balign\t64\n{sites}{described}' if count else made


def _insert_loop_copies(assembly: str) -> tuple[str, str, str]:
    """Return three texts: the assembly with jumps into second copies of its loops, the code of these copies, and the
    data that the runtime reads. Without such loops, the assembly is unchanged and the others are "".
    """
    lines = assembly.split("\n")
    hooks = [n for n, line in enumerate(lines) if _CALL.match(line)]
    before: dict[int, str] = {}
    behind: dict[int, str] = {}
    copies, described = [], []
    for row in rows.find_copied_loops(lines, {line: number for number, line in enumerate(hooks, 1)}):
        labels, ways, copy, data = rows.render_copy(row)
        for line, label in labels.items():
            before[line] = before.get(line, "") + label
        behind |= ways
        copies.append(copy)
        described.append(data)
    if not copies:
        return assembly, "", ""
    joined = "\n".join(before.get(n, "") + line + behind.get(n, "") for n, line in enumerate(lines))
    code = f'\n\t.section\t.text.weft_rows,"ax",@progbits\n{rows.SHARED}{"".join(copies)}'
    return joined, code, "".join(described)
