"""The SVG of a run: well-formed, true to the record, and nothing of the record is markup."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

import weft
from weft.errors import UsageError
from weft.picture.svg import draw_svg
from weft.picture.svg_base import Picture
from weft.trace import RunError, Trace
from weft.trace.builder import ANY, Builder

SCRIPT = "<script>alert(1)</script>&\"'\x1b]0;x\x07"
NAMESPACE = "{http://www.w3.org/2000/svg}"


def hung(path: Path | None = None, **kw: str) -> Builder:
    b = Builder(ranks=3, path=path, **kw)
    r0, r1, r2 = b.ranks
    r0.send(1, tag=1, enter=0, exit=1000)
    r1.recv(0, tag=1, enter=500, exit=2000)
    r2.send(0, tag=9, enter=100, exit=900)
    r0.open.recv(1, tag=5, enter=3000, site=("a.py", 3, "main"))
    r1.open.recv(0, tag=6, enter=4000)
    r2.finalize(enter=5000, exit=6000)
    return b


def parsed(picture: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def classes(picture: str, name: str) -> list[ElementTree.Element]:
    return [element for element in parsed(picture).iter() if name in (element.get("class") or "").split()]


def test_messages_are_arrows_and_a_lost_one_ends_in_the_air() -> None:
    picture = draw_svg(hung().open())
    assert len(classes(picture, "message")) == 1
    lost = [e.findtext(f"{NAMESPACE}title") for e in classes(picture, "trouble")]
    assert "nobody received send(dest=0, tag=9)" in lost


def test_what_never_returned_is_torn_and_nothing_else_is() -> None:
    torn = classes(draw_svg(hung().open()), "torn")
    told = [e.findtext(f"{NAMESPACE}title") or "" for e in torn]
    assert [t.split(",")[0] for t in told] == ["rank 0: recv(source=1", "rank 1: recv(source=0"]
    assert all(t.endswith("never returned") for t in told)
    b = Builder(ranks=1)
    b.ranks[0].barrier()
    assert not classes(draw_svg(b.open()), "torn")


def test_who_waits_for_whom_stands_at_the_edge() -> None:
    titles = {e.findtext(f"{NAMESPACE}title") for e in classes(draw_svg(hung().open()), "trouble")}
    assert {"rank 0 waits for rank 1", "rank 1 waits for rank 0"} <= titles


def test_boxes_lie_where_the_calls_were() -> None:
    trace = hung().open()
    picture = draw_svg(trace, window=(0, 6e-6), width=108 + 64 + 600)
    boxes = {e.findtext(f"{NAMESPACE}title"): e.get("d") for e in parsed(picture).iter(f"{NAMESPACE}path")}
    d = boxes["rank 1: recv(source=0, tag=1), at 500 ns, took 1.5 us"]
    assert re.match(r"M158\.00 [\d.]+H308\.00v", d or "")


def test_a_window_and_ranks_can_be_chosen() -> None:
    trace = hung().open()
    part = draw_svg(trace, window="0ns-2us", ranks="1-2")
    assert "rank 0" not in {e.text for e in parsed(part).iter(f"{NAMESPACE}text")}
    assert not classes(part, "torn")
    assert classes(draw_svg(trace, window=(None, None), ranks=[0]), "torn")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": "3ms-1ms"}, "ends before it begins"),
        ({"window": "soon"}, "not a time"),
        ({"window": "3ms"}, "not a window of time"),
        ({"ranks": "7-9"}, "it has ranks 0 to 2"),
        ({"ranks": "x"}, "not a whole number"),
    ],
)
def test_a_wrong_choice_is_said(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        draw_svg(hung().open(), **options)  # type: ignore[arg-type]


def test_nothing_of_the_record_is_markup(tmp_path: Path) -> None:
    run = tmp_path / "<b>run<"
    b = Builder(ranks=2, path=run)
    r0, r1 = b.ranks
    for r in b.ranks:
        r.host = SCRIPT[:60]
    named = b.comm("MPI_Comm_split", (0, 1), name=SCRIPT)
    site = (SCRIPT + ".py", 3, SCRIPT)
    r0.send(1, comm=named, site=site, enter=5000, exit=90000)
    r1.open.recv(ANY, comm=named, site=site)
    picture = draw_svg(b.open())
    elements = {element.tag.removeprefix(NAMESPACE) for element in parsed(picture).iter()}
    assert elements <= {"svg", "style", "title", "text", "tspan", "rect", "path", "line", "defs", "marker"}
    assert "script&gt;" in picture and "<script" not in picture and "<b>" not in picture and "\x1b" not in picture


def test_many_ranks_become_bands_whose_shares_add_up() -> None:
    b = Builder(ranks=400)
    for r in b.ranks:
        r.barrier(enter=0, exit=1_000_000 if r.index % 2 else 500_000)
    picture = draw_svg(b.open())
    texts = {e.text for e in parsed(picture).iter(f"{NAMESPACE}text")}
    assert "ranks 0-4" in texts and len(picture) < 100_000


def test_a_run_without_calls_says_so() -> None:
    assert "no calls were recorded" in draw_svg(Builder(ranks=2).open())


def test_a_notebook_shows_an_opened_run(tmp_path: Path) -> None:
    trace = weft.open(hung(tmp_path / "run").write())
    assert trace._repr_svg_() == trace.plot() == draw_svg(trace)
    part = trace.plot(window="0ns-2us")
    assert isinstance(part, Picture) and part._repr_svg_() == part != trace.plot()


def test_a_trace_without_a_painter_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trace, "draw_svg", None)
    trace = hung().open()
    assert trace._repr_svg_() is None
    with pytest.raises(RunError, match=r"open it with weft\.open"):
        trace.plot()


def test_a_picture_is_saved_once(tmp_path: Path) -> None:
    picture = draw_svg(hung().open())
    picture.save(tmp_path / "run.svg")
    assert (tmp_path / "run.svg").read_text() == picture
    with pytest.raises(UsageError, match="exists"):
        picture.save(tmp_path / "run.svg")
