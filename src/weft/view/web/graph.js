// The graph: asks for the window that is shown, draws it, and bridges the wait with what it drew before.

import { drawAround, drawBands, drawFinding } from "weft/arrows.js";
import { announce } from "weft/dom.js";
import { Frame, GUTTER, RULER } from "weft/frame.js";
import { bestGrouping, foldedAtFirst, Lanes } from "weft/lanes.js";
import { drawChosenMessage, drawMessages, messageAt } from "weft/messages.js";
import { drawNotes, outline } from "weft/shapes.js";
import { colours, thin } from "weft/theme.js";
import { drawTracks, paintColumns } from "weft/tracks.js";

const MOST_CELLS = 8e5; // rows times columns that are asked for at once

export class Graph extends Frame {
  constructor(canvas, api, run, state) {
    super();
    Object.assign(this, { canvas, api, run, state });
    this.context = canvas.getContext("2d");
    this.axis = null;
    this.part = null; // what was drawn last: { data, lanes, picture, filtered }
    this.whole = null; // the whole run, coarsely: behind everything that is not there yet
    this.links = { messages: [], bands: [], hidden: 0, bands_hidden: false, ready: false };
    this.chosen = null; // details of the selected call
    this.message = null; // facts of the chosen message
    this.lines = []; // where messages are drawn
    this.around = null;
    this.finding = null;
    this.rowHeight = 0;
    this.scroll = 0;
    this.hover = null;
    this.measure = null; // [from, to] of the ruler
    this.widths = new Map();
    this.frame = 0;
    this.asked = 0;
    this.waiting = null;
    run.isLast = (data, i) => this.openCalls.has(`${this.lanes.lanes[data.lane[i]].rows[0]}:${data.event[i]}`);
    this.openCalls = new Set(run.open.map(([, event, row]) => `${row}:${event}`));
    this.openIds = new Set(run.open.map(([rank, event]) => `${rank}:${event}`));
    this.rankRow = new Map();
    run.rows.forEach(([, rank], row) => {
      if (!this.rankRow.has(rank)) this.rankRow.set(rank, row);
    });
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  get width() {
    return Math.max(50, this.canvas.clientWidth - GUTTER);
  }
  get height() {
    return Math.max(50, this.canvas.clientHeight - RULER);
  }
  get grouping() {
    return this.state.grouping ?? bestGrouping(this.run);
  }

  start(axis) {
    this.axis = axis;
    if (this.state.folded.size === 0) this.state.folded = new Set(foldedAtFirst(this.run, this.grouping));
    this.lay();
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    if (this.axis && this.lanes) {
      this.lay();
      this.load();
    }
  }

  /** Puts the rows in their places. */
  lay() {
    this.lanes = new Lanes(
      this.run,
      this.grouping,
      this.state.folded,
      this.height,
      this.rowHeight,
      this.stressedRows(),
    );
    this.scroll = Math.max(0, Math.min(this.scroll, this.lanes.bottom - this.height));
    this.whole = null;
    this.part = null;
    this.draw();
  }

  /** The rows that the chosen finding is about; of a rank with threads those of the calls that it names. */
  stressedRows() {
    const ranks = this.troubled;
    const named = (this.finding?.events ?? []).filter(([rank]) => ranks.has(rank));
    const told = new Set(named.map(([rank]) => rank));
    const others = [...ranks].filter((rank) => !told.has(rank)).map((rank) => this.rankRow.get(rank));
    return new Set([...named.map((event) => event[2]), ...others].filter((row) => row !== undefined));
  }

  /** Takes a finding; its rows get room where they have little. */
  take(finding) {
    this.finding = finding;
    if (!this.lanes) return;
    const wanted = [...this.stressedRows()].sort().join();
    if (wanted === this.stress) {
      this.draw();
      return;
    }
    this.stress = wanted;
    const before = this.lanes.query + this.lanes.height;
    this.lay();
    if (this.lanes.query + this.lanes.height !== before) this.load();
  }

  // Places

  x(at) {
    return ((at - this.state.from) / (this.state.to - this.state.from)) * this.width;
  }
  time(x) {
    return this.state.from + (x / this.width) * (this.state.to - this.state.from);
  }

  view() {
    return {
      run: this.run,
      width: this.width,
      ratio: devicePixelRatio || 1,
      notes: [],
      lines: [],
      wide: this.state.to - this.state.from,
      pitch: this.lanes.height,
      clock: this.state.axis !== "logical",
      realTime: (at) => this.realTime(at),
      x: (at) => this.x(at),
      rowY: (row) => this.lanes.rowY[row],
      rankY: (rank) => (this.rankRow.has(rank) ? this.lanes.rowY[this.rankRow.get(rank)] : null),
      isOpen: ([rank, event]) => this.openIds.has(`${rank}:${event}`),
      merged: (a, b) =>
        this.lanes.rowLane[a] === this.lanes.rowLane[b] && this.lanes.lanes[this.lanes.rowLane[a]]?.rows.length > 1,
      laneOf: (row) => this.lanes.lanes[this.lanes.rowLane[row]] ?? null,
      torn: () => Math.min(this.x(this.axis.end), this.width - 4),
      measure: (context, text) => this.measured(context, text),
    };
  }

  measured(context, text) {
    if (!this.widths.has(text)) {
      if (this.widths.size > 5000) this.widths.clear();
      this.widths.set(text, context.measureText(text).width);
    }
    return this.widths.get(text);
  }

  // Data

  columns() {
    const rows = this.lanes.lanes.reduce((sum, lane) => sum + lane.rows.length, 0);
    const wanted = Math.round(this.width * (devicePixelRatio || 1));
    return Math.max(200, Math.min(wanted, 4000, Math.round(MOST_CELLS / Math.max(1, rows))));
  }

  given() {
    const { axis, from, to, filter } = this.state;
    return { axis, from, to, filter, lanes: this.lanes.query, columns: this.columns() };
  }

  /** Asks for what is shown; of several requests the last one counts. */
  load() {
    if (!this.lanes) return;
    this.draw();
    if (this.waiting) {
      this.stale = true;
      return;
    }
    this.stale = false;
    this.waiting = this.fetch().finally(() => {
      this.waiting = null;
      if (this.stale) this.load();
    });
  }

  async fetch() {
    const lanes = this.lanes;
    const given = this.given();
    this.begun = performance.now();
    const same = () => lanes === this.lanes && given.axis === this.state.axis && given.filter === this.state.filter;
    try {
      const data = await this.api.window(given);
      if (same()) this.show(this.painted(data, lanes, given.filter));
      if (!this.whole && same()) {
        const { end } = this.axis;
        const all = await this.api.window({ ...given, from: 0, to: end, columns: 800 });
        if (same()) this.whole = this.painted(all, lanes, given.filter);
      }
      if (!this.stale) await this.fetchLinks(given, same);
    } catch (error) {
      this.failed(error);
    }
  }

  async fetchLinks(given, same) {
    const { axis, from, to, filter } = given;
    const links = await this.api.links({ axis, from, to, filter });
    if (!same() || this.stale) return;
    this.links = links;
    this.links.axis = axis;
    this.draw();
    this.canvas.dispatchEvent(new CustomEvent("counted"));
    if (!links.ready) setTimeout(() => this.load(), 700);
  }

  failed(error) {
    announce(`${error.message}`);
    this.canvas.dispatchEvent(new CustomEvent("failed", { detail: error.message }));
  }

  painted(data, lanes, filter) {
    return {
      data,
      lanes,
      axis: this.state.axis,
      filtered: Boolean(filter),
      picture: paintColumns(data, lanes, devicePixelRatio || 1, Boolean(filter)),
    };
  }

  show(part) {
    this.part = part;
    this.paint();
    this.canvas.dataset.answered = String(Math.round((performance.now() - this.begun) * 10) / 10);
    this.canvas.dataset.frames = String(Number(this.canvas.dataset.frames ?? 0) + 1);
    this.canvas.dispatchEvent(new CustomEvent("counted"));
  }

  // Drawing

  draw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  paint() {
    if (!this.axis || !this.lanes) return;
    const { context } = this;
    const ratio = devicePixelRatio || 1;
    const palette = colours();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    const view = this.view();
    context.save();
    context.beginPath();
    context.rect(GUTTER, RULER, this.width, this.height);
    context.clip();
    context.translate(GUTTER, RULER - this.scroll);
    this.paintGround(view, palette);
    if (this.current(this.whole) && !this.fits(this.part)) drawTracks(context, view, this.whole);
    if (this.current(this.part)) drawTracks(context, view, this.part);
    this.paintOver(view, palette);
    context.restore();
    this.paintRuler(palette);
    this.paintLabels(palette);
  }

  current(part) {
    return part && part.lanes === this.lanes && part.axis === this.state.axis;
  }

  fits(part) {
    return this.current(part) && part.data.from <= this.state.from && part.data.to >= this.state.to;
  }

  paintGround(view, palette) {
    const { context } = this;
    for (const lane of this.lanes.lanes) {
      if (lane.stressed) {
        context.fillStyle = thin(palette[this.finding?.severity] ?? palette.error, 0.1);
        context.fillRect(0, lane.y - 3, this.width, lane.height + 6);
      }
      context.fillStyle = palette.track;
      context.fillRect(0, lane.y, this.width, lane.height);
    }
    const end = this.x(this.axis.measured);
    if (end < this.width) {
      context.fillStyle = thin(palette.paper, 0.75);
      context.fillRect(Math.max(0, end), 0, this.width - end, this.lanes.bottom);
    }
    if (this.x(0) > 0) {
      context.fillStyle = thin(palette.paper, 0.75);
      context.fillRect(0, 0, this.x(0), this.lanes.bottom);
    }
    for (const item of this.lanes.items.filter((one) => one.kind === "head")) {
      context.fillStyle = palette.line;
      context.fillRect(0, item.y + 0.5, this.width, 1);
    }
  }

  paintOver(view, palette) {
    const { context } = this;
    if (this.around && this.chosen && this.state.around) drawAround(context, view, this.around);
    this.paintFolds(palette);
    if (this.links.axis === this.state.axis) {
      drawBands(context, view, this.links.bands, false);
      drawMessages(context, view, this.nearMisses(this.links.messages), false);
    }
    if (this.finding) drawFinding(context, view, this.finding);
    this.paintEnds(palette, view);
    if (this.chosen) this.paintChosen(view, palette);
    if (this.message?.axis === this.state.axis) drawChosenMessage(context, view, this.message);
    drawNotes(context, view.notes);
    this.lines = view.lines;
    for (const mark of this.state.marks) this.paintLine(this.x(mark), palette.good, "");
    if (this.measure) this.paintMeasure(palette);
  }

  /** Messages in the air are told what they were missed by: a receive of the same two ranks that wanted another tag. */
  nearMisses(messages) {
    const air = messages.filter((m) => !m.to);
    if (!air.length) return messages;
    const missed = new Set();
    const named = new Map();
    for (const sent of air.filter((m) => m.kind === "unmatched-send")) {
      const other = air.find(
        (m) =>
          m.kind === "unmatched-receive" &&
          m.event[0] === sent.peer &&
          (m.peer === sent.event[0] || m.peer < 0) &&
          !missed.has(m),
      );
      if (!other) continue;
      missed.add(other);
      named.set(
        sent,
        other.tag === sent.tag
          ? `tag ${sent.tag}, but on ${sent.comm}, not ${other.comm}`
          : `sent with tag ${sent.tag}, waited for tag ${other.tag}`,
      );
    }
    return messages.map((m) =>
      named.has(m) ? { ...m, near: named.get(m) } : missed.has(m) ? { ...m, silent: true } : m,
    );
  }

  paintChosen(view, palette) {
    const { place, links } = this.chosen;
    if (links?.band) drawBands(this.context, view, [links.band], true);
    if (links) drawMessages(this.context, view, links.messages, true);
    outline(this.context, view, place[0], place[1], place[2], palette.accent);
  }

  // What lies where: places are pixels of the canvas.

  hit(x, y) {
    const at = this.time(x - GUTTER);
    if (y < RULER) return { kind: "ruler", at };
    const item = this.lanes.at(y - RULER + this.scroll);
    if (item && item.kind === "head") return { kind: "head", item };
    if (x < GUTTER) return { kind: "label", item };
    return {
      kind: "lane",
      x: x - GUTTER,
      y: y - RULER + this.scroll,
      item,
      at,
      index: item ? this.lanes.lanes.indexOf(item) : -1,
    };
  }

  /** The message under a place, null for none: in the row of one of its ends a call comes first. */
  messageAt(hit, reach = 6) {
    if (hit.kind !== "lane") return null;
    const { item } = hit;
    const inside = item && item.kind === "lane" && hit.y >= item.y && hit.y <= item.y + item.height;
    const lines = inside
      ? this.lines.filter(({ message }) => !item.rows.includes(message.from[0]) && !item.rows.includes(message.to?.[0]))
      : this.lines;
    return messageAt(lines, hit.x, hit.y, inside ? reach / 2 : reach);
  }

  /** The box under a place, as an index into the window's boxes, -1 for none. */
  boxAt(hit) {
    const data = this.part?.data;
    if (!data?.start || hit.index < 0 || !data.boxed.includes(hit.index)) return -1;
    const reach = ((this.state.to - this.state.from) / this.width) * 2;
    let best = -1;
    for (let i = 0; i < data.start.length; i += 1) {
      if (data.lane[i] !== hit.index || data.start[i] - reach > hit.at || data.end[i] + reach < hit.at) continue;
      const inside = data.start[i] <= hit.at && hit.at <= data.end[i];
      if (inside) return i;
      best = i;
    }
    return best;
  }

  /** Shares of the classes in the column under a place. */
  sharesAt(hit) {
    const data = this.part?.data;
    if (!data || hit.index < 0 || data.boxed.includes(hit.index)) return [];
    const column = Math.floor(((hit.at - data.from) / (data.to - data.from)) * data.columns);
    if (column < 0 || column >= data.columns) return [];
    const used = data.classes.length;
    return data.classes
      .map((name, c) => [name, data.shares[(hit.index * used + c) * data.columns + column] / 255])
      .filter(([, share]) => share > 0);
  }

  static get gutter() {
    return GUTTER;
  }
  static get ruler() {
    return RULER;
  }
}
