"""Probes of all kinds, kept in all forms, and compared: run with libraries that are watched (tools/sanitize.py).

python probed.py FOLDER ROUNDS SEED
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import weft
from weft.compare.values import compare_values
from weft.compare.values.report import render_values
from weft.values import recording
from weft.values.configuration import FORMS, Configuration, Rule
from weft.values.trace import ValueTrace

TYPES = ("f8", "f4", "i1", "u2", "i4", "u8", "c8", "c16", "?", "g")


def program(rounds: int, seed: int) -> None:
    """Arrays of any shape, order and stride, whole and in parts, and what is none."""
    draw = np.random.default_rng(seed)
    for step in range(rounds):
        with weft.loop("round", step):
            shape = tuple(draw.integers(0, 9, int(draw.integers(0, 5))).tolist()) if step % 7 else (5000,)
            array = np.asarray(draw.normal(size=shape) * 100).astype(TYPES[step % len(TYPES)])
            if array.ndim and step % 3 == 0:
                array = array[tuple(slice(None, None, int(draw.choice([-2, -1, 1, 2]))) for _ in shape)]
            if array.ndim > 1 and step % 5 == 0:
                array = array.T
            weft.probe(f"whole {step % 4}", array)
            if array.ndim:
                weft.probe("part", weft.part(array, of=f"A{array.ndim}", lower=tuple(range(array.ndim))))
            weft.probe("sum", float(array.real.sum()), terms=array.real.ravel().tolist())
            weft.probe("none", "a text")


def kept(folder: Path, form: int, words: list[str], limit: int) -> ValueTrace:
    """What a process of this file keeps."""
    (folder / "values").mkdir(parents=True)
    plan = Configuration([Rule("program", "", form=form)], limit=limit).plan_text()
    (folder / "values" / "plan").write_text(plan)
    library = recording.library()
    variables = {"WEFT_INTERNAL_VALUES": str(folder / "values"), "WEFT_INTERNAL_VALUES_LIBRARY": str(library)}
    subprocess.run([sys.executable, __file__, "--", *words], env=os.environ | variables, check=True, timeout=200)
    return ValueTrace.open(folder)


def main() -> None:
    """Each form, with room and without, held against the values themselves."""
    folder, words = Path(sys.argv[1]), sys.argv[2:4]
    whole = kept(folder / "whole", 0, words, 1 << 30)
    for name, form in FORMS.items():
        for limit in (1 << 30, 100_000):
            other = kept(folder / f"{name}-{limit}", int(form), words, limit)
            said = list(render_values(compare_values(whole, other, {})))
            assert said and len(other.processes[0].rows)
            print(name, limit, len(other.processes[0].rows), said[0][:100])


if __name__ == "__main__":
    if sys.argv[1] == "--":
        program(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
