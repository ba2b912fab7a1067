// Moving: the window over time, the rows, groups of rows. What can go no further says so.

import { say } from "weft/dom.js";
import { foldedAtFirst } from "weft/lanes.js";

/** @import { Api, Run, Spot } from "weft/sent" */
/** @import { Minimap } from "weft/minimap.js" */
/** @import { Graph } from "weft/graph.js" */
/** @import { State } from "weft/state.js" */

export const NEAREST = 20; // ns that a window shows at least
const WIDEST = 1.4; // of the run that a window shows at most
const FLIGHT = 260; // ms

/** What the page does with its window and its rows; the page itself has the graph and the state. */
export class Moves {
  // Page.start makes these, before anything can be moved.
  /** @type {Api} */
  api;
  /** @type {Run} */
  run;
  /** @type {State} */
  state;
  /** @type {Graph} */
  graph;
  /** @type {Minimap} */
  minimap;

  /** @type {symbol | null} the movement under way */
  flight = null;
  lastStep = -1e9;

  /**
   * The row, start and end of the chosen call.
   * @returns {Spot | null}
   */
  chosenPlace() {
    return this.graph.chosen?.place ?? null;
  }

  /** Shows which axis and which grouping are chosen: the page has the fields for that. */
  marked() {}

  get least() {
    return this.state.axis === "logical" ? 2 : NEAREST;
  }

  /**
   * The window, kept within reach of the run.
   * @param {number} from
   * @param {number} to
   */
  move(from, to) {
    const { end } = this.graph.axis;
    const wide = Math.max(this.least, Math.min(to - from, end * WIDEST));
    const middle = Math.max(0, Math.min(end, (from + to) / 2));
    this.state.set({ from: middle - wide / 2, to: middle + wide / 2 });
  }

  /**
   * @param {number} from
   * @param {number} to
   * @param {boolean} [still]
   */
  zoomTo(from, to, still = false) {
    this.state.remember();
    if (still || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.move(from, to);
      return;
    }
    const [a, b] = [this.state.from, this.state.to];
    const begun = performance.now();
    const flight = (this.flight = Symbol("flight"));
    /** @param {number} now */
    const frame = (now) => {
      if (this.flight !== flight) return;
      const t = Math.min(1, (now - begun) / FLIGHT);
      const s = t * t * (3 - 2 * t);
      this.move(a + (from - a) * s, b + (to - b) * s);
      if (t < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  stepped(from, to) {
    this.flight = null;
    this.zoomOnce();
    this.move(from, to);
  }

  /** Of a flurry of small steps the first one can be taken back. */
  zoomOnce() {
    const now = performance.now();
    if (now - this.lastStep > 600) this.state.remember();
    this.lastStep = now;
  }

  /** @param {number} share */
  pan(share) {
    const { from, to } = this.state;
    const middle = (from + to) / 2;
    if (share < 0 && middle <= 0) {
      say("The run begins here.");
      return;
    }
    if (share > 0 && middle >= this.graph.axis.end) {
      say("The run ends here.");
      return;
    }
    const by = (to - from) * share;
    this.stepped(from + by, to + by);
  }

  /**
   * @param {number} factor
   * @param {number} [at]
   */
  zoom(factor, at = this.focus()) {
    const { from, to } = this.state;
    if (factor < 1 && to - from <= this.least * 1.0001) {
      say("This is as close as it gets.");
      return;
    }
    if (factor > 1 && to - from >= this.graph.axis.end * WIDEST * 0.9999) {
      say("All of the run is shown.");
      return;
    }
    this.stepped(at - (at - from) * factor, at + (to - at) * factor);
  }

  /** What keys zoom around: the chosen call where it is seen, else the middle. */
  focus() {
    const { from, to } = this.state;
    const place = this.chosenPlace();
    const at = place ? Math.max(place[1], from) : Infinity;
    return place && at <= to && place[2] >= from ? at : (from + to) / 2;
  }

  all() {
    const { end } = this.graph.axis;
    if (this.state.from === 0 && this.state.to === end) say("All of the run is shown.");
    else this.zoomTo(0, end);
  }

  /** @param {number} side */
  end(side) {
    const wide = this.state.to - this.state.from;
    const at = side < 0 ? 0 : this.graph.axis.end - wide;
    if (Math.abs(this.state.from - at) < wide * 1e-6) say(side < 0 ? "The run begins here." : "The run ends here.");
    else this.zoomTo(at, at + wide);
  }

  undo() {
    this.flight = null;
    if (!this.state.undo()) say("There is no earlier time window.");
  }
  redo() {
    this.flight = null;
    if (!this.state.redo()) say("There is no later time window.");
  }

  // Rows

  /** @param {number} factor */
  rowHeight(factor) {
    const { graph } = this;
    const before = graph.lanes.height;
    graph.rowHeight = Math.max(0, Math.min(90, (graph.rowHeight || Math.max(8, graph.lanes.height)) * factor));
    if (graph.rowHeight * this.run.rows.length <= graph.height || graph.rowHeight < 3)
      graph.rowHeight = factor < 1 ? 0 : graph.rowHeight;
    graph.lay();
    graph.load();
    if (Math.abs(graph.lanes.height - before) < 0.01)
      say(factor < 1 ? "The rows fill the screen: they cannot be lower." : "The rows get no higher.");
  }

  /** @param {number} share */
  scroll(share) {
    const { graph } = this;
    const before = graph.scroll;
    graph.scroll = Math.max(0, Math.min(graph.scroll + graph.height * share, graph.lanes.bottom - graph.height));
    if (graph.lanes.bottom <= graph.height) say("All rows are shown.");
    else if (graph.scroll === before) say(share < 0 ? "These are the first rows." : "These are the last rows.");
    graph.draw();
  }

  /** @param {string} name */
  group(name) {
    this.state.set({ grouping: name, folded: new Set(foldedAtFirst(this.run, name)) });
    this.graph.rowHeight = 0;
    this.graph.lay();
    this.graph.load();
    this.marked();
  }

  nextGrouping() {
    const names = ["", ...Object.keys(this.run.groupings)];
    if (names.length === 1) say("The rows do not differ, so there are no groups.");
    else this.group(names[(names.indexOf(this.graph.grouping) + 1) % names.length]);
  }

  /** @param {string} name */
  fold(name) {
    const { folded } = this.state;
    if (!folded.delete(name)) folded.add(name);
    this.graph.lay();
    this.graph.load();
  }

  foldAll() {
    const names = (this.run.groupings[this.graph.grouping] ?? []).map(([name]) => name);
    if (!names.length) {
      say("The rows are in no groups: choose some first ( g ).");
      return;
    }
    const { folded } = this.state;
    if (names.every((name) => folded.has(name))) folded.clear();
    else names.forEach((name) => folded.add(name));
    this.graph.lay();
    this.graph.load();
  }

  /**
   * Rows that something happens in are not hidden in a folded group, where that leaves the graph readable.
   * @param {number[]} rows
   */
  unfoldRows(rows) {
    const groups = this.run.groupings[this.graph.grouping] ?? [];
    const hidden = groups.filter(
      ([name, of]) => this.state.folded.has(name) && of.length <= 64 && rows.some((row) => of.includes(row)),
    );
    if (!hidden.length) return;
    for (const [name] of hidden) this.state.folded.delete(name);
    this.graph.lay();
    this.graph.load();
  }

  mark() {
    const at = this.focus();
    const { marks, from, to } = this.state;
    const near = marks.find((m) => Math.abs(m - at) < (to - from) * 0.004);
    this.state.set({ marks: near === undefined ? [...marks, at] : marks.filter((m) => m !== near) });
    this.graph.draw();
    this.minimap.draw();
  }
}
