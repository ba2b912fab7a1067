// Two runs of a program, one below the other: aligned at a difference, moved together.

import { besideOf, remote } from "weft/api.js";
import { drawDiffer, drawSpread } from "weft/differ.js";
import { byId, el, messageOf, replace } from "weft/dom.js";
import { Graph } from "weft/graph.js";
import { rankName, takeNames } from "weft/names.js";
import { State } from "weft/state.js";
import { startTheme, switchTheme } from "weft/theme.js";

/** @import { Palette, View } from "weft/drawn" */
/** @import { Api, Beside, BesideSide, Difference, Placed } from "weft/sent" */

/**
 * What differs in a run. `taken`: its calls that take another message; `other`: those whose messages hold other bytes.
 * @typedef {BesideSide & { taken: Set<string>, other: Set<string> }} Side
 */

/** @type {Record<string, string>} */
const ENDED = { deadlock: "bad", crashed: "bad", killed: "odd", finished: "good" };
const AXES = [
  ["logical", "Logical"],
  ["time", "Time"],
];
const LEGEND = [
  ["error", "takes another message"],
  ["held", "holds other bytes"],
  ["warning", "only in this run"],
  ["spread", "behind a rank's first difference"],
];
const LEAST = 2; // of the axis that a window shows: one step, or 2 ns

/** @type {Record<string, string>} */
const WORDS = { sent: "sends other bytes first", received: "receives other bytes first" };

/** @param {Placed[]} calls */
const namesOf = (calls) => new Set(calls.map(([rank, event]) => `${rank},${event}`));

/** The window of one run: both are moved by the page, and neither is kept in the address. */
class Half extends State {
  /** @override */
  write() {}
}

/** The graph of one run, with what differs. */
class HalfGraph extends Graph {
  /** @type {Side | null} */
  side = null;

  /**
   * @param {View} view
   * @param {Palette} palette
   * @override
   */
  paintGround(view, palette) {
    super.paintGround(view, palette);
    if (this.side) drawSpread(this.context, view, this.side, palette);
  }

  /**
   * @param {View} view
   * @param {Palette} palette
   * @override
   */
  paintOver(view, palette) {
    super.paintOver(view, palette);
    if (this.side) drawDiffer(this.context, view, this.side, palette);
  }
}

export class BesidePage {
  /** @type {Api[]} */
  apis = [];
  /** @type {HalfGraph[]} */
  graphs = [];
  /** @type {Beside} there is none before start() */
  told;
  /** The difference in the middle. */
  chosen = 0;
  axis = "logical";

  async start() {
    startTheme(() => this.repaint());
    this.of = new URLSearchParams(location.search).get("of") ?? "";
    this.apis = [remote(), remote(this.of)];
    byId("theme").addEventListener("click", () => switchTheme(() => this.repaint()));
    this.buttons();
    replace(byId("findings"), el("p", { class: "quiet" }, "Weft compares the runs …"));
    const runs = await Promise.all(this.apis.map((api) => api.run()));
    takeNames(runs[0]);
    this.graphs = runs.map((run, i) => {
      const state = new Half();
      Object.assign(state, { axis: this.axis, grouping: "" });
      const graph = new HalfGraph(this.canvas(i), this.apis[i], run, state);
      byId(`name-${i}`).textContent = run.name;
      byId(`ended-${i}`).textContent = run.ended;
      byId(`ended-${i}`).className = `pill ${ENDED[run.ended] ?? ""}`;
      this.listen(graph);
      return graph;
    });
    byId("title").textContent = `${runs[0].name} and ${runs[1].name}`;
    document.title = `${runs[0].name} and ${runs[1].name} – Weft`;
    await this.useAxis(this.axis);
    this.keys();
    document.body.dataset.ready = "yes";
  }

  /** @param {number} i */
  canvas(i) {
    return /** @type {HTMLCanvasElement} */ (byId(`graph-${i}`));
  }

  /**
   * Takes an axis; the difference that was in the middle stays there.
   * @param {string} name
   */
  async useAxis(name) {
    this.axis = name;
    const [told, ...axes] = await Promise.all([
      besideOf(this.of ?? "", name),
      ...this.apis.map((api) => api.axis(name)),
    ]);
    if (this.axis !== name) return;
    this.told = told;
    byId("values").hidden = !told.values;
    this.graphs.forEach((graph, i) => {
      const side = told.sides[i];
      graph.side = { ...side, taken: namesOf(side.changed), other: namesOf(side.held) };
      graph.state.set({ axis: name });
      graph.start(axes[i]);
    });
    for (const button of byId("axes").querySelectorAll("button"))
      button.setAttribute("aria-checked", String(button.dataset.axis === name));
    this.list();
    this.go(this.chosen);
  }

  /** What differs, in words, and each rank's difference: a click brings it into the middle. */
  list() {
    const { differences, texts } = this.told;
    replace(
      byId("findings"),
      el("h2", {}, differences.length ? "Where they differ" : "They do not differ"),
      el(
        "ol",
        {},
        differences.map((one, i) => el("li", {}, this.difference(one, i))),
      ),
      el(
        "div",
        { class: "texts small wraps" },
        texts.map((text) => el("p", {}, text.trim())),
      ),
    );
  }

  /**
   * @param {Difference} one
   * @param {number} i
   */
  difference(one, i) {
    return el(
      "button",
      { type: "button", class: one.first ? "error" : "warning", onclick: () => this.go(i) },
      el("span", { class: "kind" }, rankName(one.rank)),
      el("span", { class: "sure" }, ` ${WORDS[one.what] ?? (one.first ? "differs first" : "follows")}`),
      one.sides.map(({ text, event }) => el("div", { class: "mono small" }, event ? `${event[1]}: ${text}` : text)),
    );
  }

  /** @param {number} i */
  go(i) {
    this.chosen = i;
    byId("findings")
      .querySelectorAll("ol button")
      .forEach((button, n) => button.setAttribute("aria-current", String(n === i)));
    const one = this.told.differences[i];
    if (!one) {
      this.move(0, Math.max(...this.graphs.map((graph) => graph.axis.end)));
      return;
    }
    const reach = Math.max(...one.sides.map(({ at, around }) => Math.max(at - around[0], around[1] - at)), LEAST);
    this.move(one.sides[0].at - reach, one.sides[0].at + reach);
    this.graphs.forEach((graph, n) => {
      const y = graph.lanes.rowY[one.sides[n].row];
      if (y < graph.scroll || y > graph.scroll + graph.height) graph.scroll = Math.max(0, y - graph.height / 2);
    });
  }

  /** How much further the second run's place of the chosen difference is than the first one's. */
  get shift() {
    const one = this.told.differences[this.chosen];
    return one ? one.sides[1].at - one.sides[0].at : 0;
  }

  /**
   * The window of the first run; that of the second goes along.
   * @param {number} from
   * @param {number} to
   */
  move(from, to) {
    const most = 1.4 * Math.max(...this.graphs.map((graph) => graph.axis.end));
    const wide = Math.max(LEAST, Math.min(to - from, most));
    const begin = (from + to - wide) / 2;
    this.graphs.forEach((graph, i) => {
      const start = begin + (i ? this.shift : 0);
      graph.state.set({ from: start, to: start + wide });
      graph.load();
    });
  }

  /** @param {number} factor */
  zoom(factor) {
    const { from, to } = this.graphs[0].state;
    const [middle, half] = [(from + to) / 2, ((to - from) / 2) * factor];
    this.move(middle - half, middle + half);
  }

  /** @param {number} share */
  pan(share) {
    const { from, to } = this.graphs[0].state;
    this.move(from + (to - from) * share, to + (to - from) * share);
  }

  repaint() {
    for (const graph of this.graphs) {
      graph.lay();
      graph.load();
    }
    this.legend();
  }

  buttons() {
    /** @type {[sign: string, title: string, action: () => void][]} */
    const all = [
      ["−", "Further away ( - )", () => this.zoom(1 / 0.6)],
      ["+", "Closer ( + )", () => this.zoom(0.6)],
      ["‹", "Earlier ( ← )", () => this.pan(-0.3)],
      ["›", "Later ( → )", () => this.pan(0.3)],
      ["To the difference", "Centre the chosen difference ( Enter )", () => this.go(this.chosen)],
    ];
    replace(
      byId("moves"),
      all.map(([sign, title, onclick]) =>
        el("button", { type: "button", title, "aria-label": title.split(" (")[0], onclick }, sign),
      ),
    );
    replace(
      byId("axes"),
      AXES.map(([name, title]) =>
        el(
          "button",
          {
            type: "button",
            role: "radio",
            "data-axis": name,
            "aria-checked": "false",
            onclick: () => this.useAxis(name),
          },
          title,
        ),
      ),
    );
    this.legend();
  }

  legend() {
    replace(
      byId("legend"),
      LEGEND.map(([name, words]) => el("li", {}, el("span", { class: `swatch differs-${name}` }), words)),
    );
  }

  keys() {
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.pan(-0.2),
      ArrowRight: () => this.pan(0.2),
      "+": () => this.zoom(0.6),
      "-": () => this.zoom(1 / 0.6),
      Enter: () => this.go(this.chosen),
      "]": () => this.go(Math.min(this.chosen + 1, this.told.differences.length - 1)),
      "[": () => this.go(Math.max(this.chosen - 1, 0)),
      l: () => switchTheme(() => this.repaint()),
    };
    document.addEventListener("keydown", (event) => {
      const at = /** @type {HTMLElement} */ (event.target).tagName;
      if (event.ctrlKey || event.metaKey || event.altKey || (event.key === "Enter" && /BUTTON|^A$/.test(at))) return;
      const act = keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  // The mouse

  /** @param {HalfGraph} graph */
  listen(graph) {
    const { canvas } = graph;
    /** @type {{ x: number, y: number, from: number, scroll: number } | null} */
    let down = null;
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2);
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      down = { x: event.offsetX, y: event.offsetY, from: this.graphs[0].state.from, scroll: graph.scroll };
    });
    canvas.addEventListener("pointerup", () => (down = null));
    canvas.addEventListener("pointercancel", () => (down = null));
    canvas.addEventListener("pointermove", (event) => {
      if (!down) {
        this.point(graph, event.offsetX, event.offsetY);
        return;
      }
      const { from, to } = this.graphs[0].state;
      const begin = down.from - ((event.offsetX - down.x) / graph.width) * (to - from);
      for (const one of this.graphs)
        one.scroll = Math.max(0, Math.min(down.scroll + down.y - event.offsetY, one.lanes.bottom - one.height));
      this.move(begin, begin + to - from);
    });
  }

  /**
   * Says which call lies under the pointer.
   * @param {HalfGraph} graph
   * @param {number} x
   * @param {number} y
   */
  async point(graph, x, y) {
    const hit = graph.hit(x, y);
    const i = graph.boxAt(hit);
    const data = graph.part?.data;
    if (i < 0 || hit.kind !== "lane" || !hit.item || !data?.event) return;
    const rank = graph.run.rows[hit.item.rows[0]][1];
    const told = await graph.api.tip(rank, data.event[i]);
    byId("pointed").textContent = `${rankName(rank)}, event ${data.event[i]}: ${told.text ?? ""} ${told.site}`;
  }
}

const page = new BesidePage();
page.start().catch((error) => {
  replace(byId("findings"), el("p", { class: "failed" }, `The runs cannot be compared: ${messageOf(error)}`));
  document.body.dataset.ready = "yes";
});

export { page };
