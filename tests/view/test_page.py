"""The page in a real Chromium: clicks, keys, filters, jumps, folding, logical time, tables, export."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import weft
from view import runs
from view.page import Page
from weft.trace import Event
from weft.trace.builder import Builder
from weft.view.html_export import render_html
from weft.view.run_view import RunView

Show = Callable[..., Page]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the runs of these tests lie."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def hung(folder: Path) -> Path:
    """A deadlocked run of 4 ranks."""
    return runs.deadlock(folder / "hung", 4)


@pytest.fixture(scope="module")
def halo(folder: Path) -> Path:
    """A clean halo exchange."""
    return runs.halo(folder / "halo", 5)


def as_shown(page: Page, event: Event) -> None:
    """Hold every number of the panel against the record."""
    assert page.text("#details h2") == event.function.name
    assert f"rank {event.rank.index}" in page.text("#details")
    assert page.fact("enter") == f"{event.enter_ns // 10**9}.{event.enter_ns % 10**9:09d} s"
    if event.exit_ns is None:
        assert page.fact("exit") == "never"
    else:
        assert page.fact("exit") == f"{event.exit_ns // 10**9}.{event.exit_ns % 10**9:09d} s"
    for name, value in event.args.items():
        if isinstance(value, int) and event.function.parameters_by_name[name].type == "int":
            wild = {-1: "any", -2: "MPI_PROC_NULL", -3: "MPI_ROOT"}
            assert page.fact(f"arg-{name}") in (str(value), wild.get(value))
    if event.status:
        assert page.fact("status-source") == str(event.status.source)
        assert page.fact("status-tag") == str(event.status.tag)
        assert page.fact("status-bytes") == f"{event.status.count:,} bytes"
    if event.comm:
        size = len(event.comm.members)
        assert page.fact("comm-rank") == f"{event.comm.rank_of(event.rank.index)} of {size}"
    assert page.text("#replay").endswith(f"--until {event.rank.index}:{event.index}")


@pytest.mark.matrix
def test_a_hung_run_opens_on_its_deadlock(page: Show, hung: Path) -> None:
    shown = page(hung)
    trace = weft.open(hung)
    assert shown.text("#ended") == "deadlocked"
    assert "error: deadlock" in shown.text("#findings")
    assert "tag 17" in shown.text("#findings")
    start, end = shown.state("[page.state.from, page.state.to]")
    for event in (trace.ranks[r].event(len(trace.ranks[r]) - 1) for r in range(4)):
        assert start < event.enter_ns < end
    # Open calls run to the torn edge, which stands inside the window.
    assert shown.state("page.graph.part.data.flags.filter((f) => !(f & 1)).length") == 4
    assert shown.state("page.graph.view().torn() <= page.graph.width")
    near = shown.state("page.graph.nearMisses(page.graph.links.messages).map((m) => m.near).filter(Boolean)")
    assert near == ["sent with tag 7, waited for tag 17"]
    assert shown.colours() > 20


@pytest.mark.matrix
def test_every_number_that_a_click_shows_is_the_records(page: Show, hung: Path, halo: Path, folder: Path) -> None:
    for path, calls in ((hung, [(2, 34), (1, 33), (0, 32)]), (halo, [(3, 8), (1, 10), (0, 6)])):
        shown = page(path)
        trace = weft.open(path)
        for rank, index in calls:
            shown.ask(f"page.jump([{rank}, {index}]); done()")
            shown.until(lambda r=rank, i=index, s=shown: s.state("page.graph.chosen?.event") == i)
            shown.ask("page.frame(); page.select(null); done()")
            shown.settle()
            shown.click(rank, index)
            as_shown(shown, trace.event(rank, index))
    race = page(runs.race(folder / "race"))
    trace = weft.open(folder / "race")
    race.key("ENTER")
    took = next(iter(trace.select("fn:Recv is:wildcard")))
    race.click(*took.id)
    as_shown(race, took)
    assert race.fact("arg-source") == "any"


def test_the_source_around_the_call_is_shown_with_its_line(page: Show, hung: Path) -> None:
    shown = page(hung)
    shown.click(2, 34)
    assert "world.Recv(rod[:1], source=left, tag=17)" in shown.text("#details pre .here")
    assert "def last_word" in shown.text("#details pre")


@pytest.mark.matrix
def test_the_partner_is_a_click_away_and_back(page: Show, halo: Path) -> None:
    shown = page(halo)
    trace = weft.open(halo)
    send = next(iter(trace.select("fn:Isend rank:2")))
    shown.ask(f"page.jump([2, {send.index}]); done()")
    shown.until(lambda: shown.text("#details h2") == "MPI_Isend")
    shown.key("p")
    shown.until(lambda: shown.text("#details h2") == "MPI_Irecv")
    rank, index = shown.state("page.state.selected")
    post = trace.event(rank, index)
    assert (rank, post.tag, post.peer) == (send.peer, send.tag, 2)
    shown.key("p")
    shown.until(lambda: shown.state("page.state.selected") == [2, send.index])


def test_keys_move_step_and_take_back(page: Show, halo: Path) -> None:
    shown = page(halo)
    whole = shown.state("[page.state.from, page.state.to]")
    shown.key("+")
    closer = shown.state("[page.state.from, page.state.to]")
    assert closer[1] - closer[0] < whole[1] - whole[0]
    shown.key("ARROW_RIGHT")
    assert shown.state("page.state.from") > closer[0]
    shown.key("u", "u")
    assert shown.state("[page.state.from, page.state.to]") == whole
    shown.ask("page.jump([1, 8]); done()")
    shown.until(lambda: shown.state("page.state.selected") == [1, 8])
    shown.key(".")
    shown.until(lambda: shown.state("page.state.selected") == [1, 9])
    shown.key("ARROW_DOWN")
    shown.until(lambda: shown.state("page.state.selected")[0] == 2)
    shown.key("ESCAPE")
    assert shown.state("page.state.selected") is None
    shown.key("?")
    assert "back to the previous time window" in shown.text("#keys")
    # What the mouse does needs the mouse: only what a key does is a button too.
    assert "zoom to a stretch" in shown.text("#keys section:last-of-type")
    assert shown.js("return document.querySelectorAll('#keys section:last-of-type button').length") == 0
    shown.js("document.querySelector('#keys').close()")


BOXES = """(() => {
    const c = document.querySelector('#graph');
    const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    let coloured = 0;
    for (let i = 0; i < d.length; i += 4)
        coloured += Math.max(d[i], d[i + 1], d[i + 2]) - Math.min(d[i], d[i + 1], d[i + 2]) > 60;
    return coloured;
})()"""
"""How many pixels have the colour of a box."""


@pytest.mark.matrix
@pytest.mark.parametrize("parts", [(0.2, 0.8), (-0.3, 1.3), (0.3, 1.3)], ids=["closer", "away", "along"])
def test_no_frame_is_blank_while_an_answer_is_awaited(page: Show, halo: Path, parts: tuple[float, float]) -> None:
    shown = page(halo)
    shown.key("+")
    seen = shown.ask(f"""
        const window = page.api.window;
        page.api.window = async (...given) => {{
            await new Promise((go) => setTimeout(go, 500));
            return window(...given);
        }};
        const {{ from, to }} = page.state;
        const graph = document.querySelector('#graph');
        const before = graph.dataset.frames;
        const seen = [];
        const look = () => {{
            seen.push({BOXES});
            if (graph.dataset.frames === before) requestAnimationFrame(look);
            else {{ page.api.window = window; done(seen); }}
        }};
        page.state.set({{ from: from + (to - from) * {parts[0]}, to: from + (to - from) * {parts[1]} }});
        requestAnimationFrame(look);
    """)
    assert len(seen) > 3
    assert min(seen) > 0.8 * seen[-1] > 1000, seen  # what is drawn over the boxes has their colours, too


@pytest.mark.matrix
def test_a_filter_dims_counts_and_steps(page: Show, halo: Path) -> None:
    shown = page(halo)
    trace = weft.open(halo)
    wanted = sorted((e.enter_ns, *e.id) for e in trace.select("fn:Allreduce rank:1-3"))
    shown.filter("fn:Allreduce rank:1-3")
    assert shown.text("#found") == f"{len(wanted)} calls"
    fits = shown.state("[...page.graph.part.data.fits].reduce((sum, n) => sum + n, 0)")
    assert fits == len(wanted)
    shown.js("document.querySelector('#graph').focus()")
    for _, rank, index in wanted[:3]:
        shown.key("n")
        shown.until(lambda r=rank, i=index: shown.state("page.state.selected") == [r, i])
    shown.filter("fn:No tag:x")
    shown.until(lambda: "not a whole number" in shown.text("#found"))
    shown.filter("rank:1")
    shown.until(lambda: shown.text("#found") == f"{len(trace.ranks[1])} calls")


@pytest.mark.matrix
def test_logical_time_is_one_step_a_level(page: Show, halo: Path) -> None:
    shown = page(halo)
    shown.key("t")
    shown.until(lambda: shown.state("page.graph.axis.name") == "folded")
    shown.key("t")
    shown.until(lambda: shown.state("page.graph.axis.name") == "logical")
    shown.key("0")
    most = max(len(rank) for rank in weft.open(halo).ranks)
    assert most <= shown.state("page.graph.axis.measured") < 2 * most
    widths = shown.state("[...page.graph.part.data.start].map((s, i) => page.graph.part.data.end[i] - s)")
    assert all(width >= 1 and width == int(width) for width in widths)
    assert shown.colours() > 20


def test_idle_time_is_folded_with_a_label(page: Show, folder: Path) -> None:
    shown = page(runs.idle(folder / "idle"))
    narrow = shown.state("[...page.graph.part.data.start].filter((s) => page.graph.x(s) > 100).length")
    shown.js("document.querySelector('[data-axis=folded]').click()")
    shown.until(lambda: shown.state("page.graph.axis.name") == "folded")
    shown.settle()
    assert len(shown.state("page.graph.axis.folds")) == 1
    wide = shown.state("[...page.graph.part.data.start].filter((s) => page.graph.x(s) > 100).length")
    assert wide > narrow
    # The ruler still tells the true time on both sides.
    at, width, start, end = shown.state("page.graph.axis.folds")[0]
    assert shown.state(f"page.graph.realTime({at + width})") == pytest.approx(end)
    assert shown.state(f"page.graph.realTime({at})") == pytest.approx(start)


@pytest.mark.matrix
def test_findings_are_flown_to_in_order(page: Show, folder: Path) -> None:
    shown = page(runs.race(folder / "races"))
    assert "warning: message-race" in shown.text("#findings")
    whole = shown.state("page.state.to - page.state.from")
    shown.key("ENTER")
    shown.until(lambda: shown.state("page.state.to - page.state.from") < whole)
    first = shown.state("page.state.from")
    assert shown.state("page.graph.finding.arrows.map((a) => a.kind)").count("could") == 2
    shown.key("]")
    shown.until(lambda: shown.state("page.state.finding") == 1)
    assert shown.state("page.state.from") != first


def test_a_crashed_run_opens(page: Show, folder: Path) -> None:
    shown = page(runs.crash(folder / "crash"))
    assert shown.text("#ended") == "crashed"
    said = shown.text("#findings")
    assert "No misuse of MPI found." in said and "✓" not in said
    assert "rank 1 ended outside MPI, after waitall at halo.py:9" in said
    assert shown.state("page.graph.part.data.flags.filter((f) => !(f & 1)).length") == 3


@pytest.mark.matrix
def test_past_and_future_are_shaded(page: Show, halo: Path) -> None:
    shown = page(halo)
    shown.ask("page.jump([2, 20]); done()")
    shown.until(lambda: shown.state("page.state.selected") == [2, 20])
    before = shown.colours()
    shown.key("h")
    past = shown.until(lambda: shown.state("page.graph.around"))
    assert len(past["past"]) == 5
    shown.until(lambda: shown.colours() != before)


@pytest.mark.matrix
def test_tables_lead_into_the_graph(page: Show, halo: Path) -> None:
    shown = page(halo)
    trace = weft.open(halo)
    shown.key("1")
    shown.until(lambda: "MPI_Waitall" in shown.text("#tables"))
    calls = len(list(trace.select("fn:Waitall")))
    rows = shown.js("return [...document.querySelectorAll('#tables tr')].map((r) => r.innerText.split('\t'))")
    assert [row[1] for row in rows if row[0] == "MPI_Waitall"] == [str(calls)]
    shown.js("[...document.querySelectorAll('#tables .row-go')].find((b) => b.innerText === 'MPI_Waitall').click()")
    shown.until(lambda: shown.text("#found") == f"{calls} calls")
    shown.js("document.querySelector('#tab-matrix').click()")
    shown.until(lambda: "Messages and bytes" in shown.text("#tables"))
    sent = len(list(trace.select("fn:Isend")))
    cells = shown.js("return [...document.querySelectorAll('#tables tbody tr')].map((r) => r.cells[2].innerText)")
    assert sum(int(cell.replace(",", "")) for cell in cells) == sent
    shown.js("document.querySelector('#tab-waits').click()")
    shown.until(lambda: "Waiting by who caused it" in shown.text("#tables"))
    shown.js("document.querySelector('#tables .row-go').click()")
    rank, index = shown.until(lambda: shown.state("page.state.selected"))
    shown.until(lambda: shown.state("page.graph.chosen?.event") == index)
    shown.js("document.querySelector('#tab-profile').click()")
    marked = "return [...document.querySelectorAll('#tables tr[aria-current=true]')].map((r) => r.cells[0].innerText)"
    shown.until(lambda: {f"rank {rank}", trace.event(rank, index).function.name} <= set(shown.js(marked)))


def test_the_address_holds_what_is_shown(page: Show, halo: Path, chromium: Any) -> None:
    shown = page(halo)
    shown.filter("fn:Isend")
    shown.ask("page.jump([1, 8]); done()")
    shown.key("+", "+")
    shown.until(lambda: "call=1%3A8" in chromium.current_url and "filter=fn" in chromium.current_url)
    window = shown.state("[page.state.from, page.state.to]")
    told = "Number(new URLSearchParams(location.hash.slice(1)).get('from')) - page.state.from"
    shown.until(lambda: abs(shown.state(told)) < 0.01)
    assert "token" not in chromium.current_url
    chromium.refresh()
    shown.until(lambda: shown.js("return document.body?.dataset.ready") == "yes")
    shown.until(lambda: shown.state("page.graph.chosen?.event") == 8)
    assert shown.state("[page.state.from, page.state.to]") == pytest.approx(window, abs=0.02)
    assert shown.text("#found").endswith("calls")


@pytest.mark.matrix
def test_a_thousand_ranks_are_a_few_groups(page: Show, folder: Path) -> None:
    shown = page(runs.deadlock(folder / "wide", 1024, 2), size=(1280, 800))
    heads = shown.state("page.graph.lanes.items.filter((i) => i.kind === 'head').map((i) => [i.rows.length, i.folded])")
    assert sorted(heads) == [[1, False], [1, False], [1022, True]]
    shown.js("const s = document.querySelector('#grouping'); s.value = ''; s.dispatchEvent(new Event('change'))")
    shown.settle()
    lanes = shown.state("page.graph.lanes.lanes.map((l) => [l.rows.length, l.height])")
    assert sum(rows for rows, _ in lanes) == 1024
    assert min(height for _, height in lanes) >= 3
    assert shown.colours() > 20


@pytest.mark.matrix
@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_follow_the_system_and_the_switch(page: Show, hung: Path, dark: bool) -> None:
    shown = page(hung, dark=dark)
    ground = "return getComputedStyle(document.body).backgroundColor"
    first = shown.js(ground)
    assert (first == "rgb(255, 255, 255)") is not dark
    shown.key("l")
    assert shown.js(ground) != first
    shown.key("l")
    shown.js("localStorage.clear()")


class TestMarkup:
    """Strings out of a record stay text, in every one that it can hold."""

    PLANTED = "<script>window.hit=1</script><img src=x onerror='window.hit=1'>\"'`${window.hit=1}"

    def run(self, path: Path) -> Path:
        """A run with a script in each string."""
        evil = self.PLANTED
        b = Builder(ranks=3, path=path, ended="deadlock")
        for rank in b.ranks:
            rank.host = evil[:60]
        named = b.dup(name=evil)
        b.split([0, 0, 1], key=evil)
        site = (f"/tmp/{evil}.py", 3, evil)
        for r, rank in enumerate(b.ranks):
            rank.call("MPI_Info_set", info=1, key=evil, value=evil, site=site)
            rank.send((r + 1) % 3, 7, comm=named, site=site)
        for r, rank in enumerate(b.ranks):
            rank.open.recv((r + 1) % 3, 17, comm=named, site=site)
        path = b.write()
        functions = (path / "functions.json").read_text()
        (path / "functions.json").write_text(functions.replace('"MPI_SUM"', '"<script>window.hit=1</script>"'))
        facts = (path / "run.json").read_text()
        (path / "run.json").write_text(facts.replace('["prog"]', f'["{"<script>window.hit=1</script>"}"]'))
        return path

    def look(self, shown: Page) -> None:
        """Look at everything there is."""
        for rank in range(3):
            count = shown.state(f"(await page.api.event('time', {rank}, 0)).count")
            for index in range(count):
                shown.ask(f"page.jump([{rank}, {index}]); done()")
                shown.until(lambda r=rank, i=index: shown.state("page.graph.chosen?.event") == i)
        for tab in ("profile", "matrix", "waits"):
            shown.js(f"document.querySelector('#tab-{tab}').click()")
            shown.until(lambda: shown.text("#tables"))
            shown.settle()
        for name in shown.state("Object.keys(page.run.groupings)"):
            shown.ask(f"page.group({name!r}); done()")
            shown.settle()

    def hold(self, shown: Page) -> None:
        """Nothing of it ran or became an element, and it was shown."""
        assert shown.js("return window.hit ?? null") is None
        assert shown.js("return document.querySelectorAll('body script, body img').length") == 0
        assert "<script>window.hit=1</script>" in shown.text("body")

    def test_on_the_served_page(self, page: Show, tmp_path: Path) -> None:
        shown = page(self.run(tmp_path / "run"))
        assert "<img src=x onerror" in shown.text("#findings")
        self.look(shown)
        self.hold(shown)

    def test_in_the_exported_file(self, page: Show, tmp_path: Path) -> None:
        picture = RunView(weft.open(self.run(tmp_path / "run")))
        picture.analyse()
        file = tmp_path / "out.html"
        file.write_bytes(render_html(picture))
        shown = page(file)
        assert b"window.hit" not in file.read_bytes()
        self.look(shown)
        self.hold(shown)


@pytest.mark.matrix
def test_an_exported_file_shows_the_same_without_weft(page: Show, hung: Path, tmp_path: Path) -> None:
    picture = RunView(weft.open(hung))
    picture.analyse()
    file = tmp_path / "hung.html"
    file.write_bytes(render_html(picture))
    served = page(hung)
    values = "[page.state.from, page.state.to, page.graph.part.data.start.length, page.graph.links.messages.length]"
    wanted = served.state(values)
    shares = served.state("[...page.graph.part.data.start, ...page.graph.part.data.end]")
    shown = page(file)
    assert shown.state(values) == wanted
    assert shown.state("[...page.graph.part.data.start, ...page.graph.part.data.end]") == shares
    for rank, index in ((2, 34), (1, 33), (0, 31)):
        shown.ask(f"page.jump([{rank}, {index}]); done()")
        shown.until(lambda r=rank, i=index: shown.state("page.graph.chosen?.event") == i)
        as_shown(shown, picture.trace.event(rank, index))
    for axis in ("logical", "folded"):
        shown.js(f"document.querySelector('[data-axis={axis}]').click()")
        shown.until(lambda a=axis: shown.state("page.graph.axis.name") == a)
        shown.settle()
        assert shown.colours() > 10


def test_an_exported_file_of_a_large_run_holds_the_trouble_and_an_outline(
    page: Show, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.view.html_export.MAX_CALLS", 400)
    picture = RunView(weft.open(runs.deadlock(folder / "large", 8, 30)))
    picture.analyse()
    file = folder / "large.html"
    file.write_bytes(render_html(picture))
    shown = page(file)
    assert shown.state("page.graph.part.data.flags.filter((f) => !(f & 1)).length") == 8
    shown.key("0")
    assert "outline" in shown.text("#counts")
    assert shown.colours() > 20
