// The graph: asks for the window that is shown, draws it, and bridges the wait with what it drew before.

import { drawAround, drawBands, drawFinding } from "weft/arrows.js";
import { drawCut } from "weft/cut.js";
import { announce, messageOf } from "weft/dom.js";
import { GUTTER, RULER } from "weft/frame.js";
import { Hits } from "weft/hits.js";
import { bestGrouping, foldedAtFirst, Lanes } from "weft/lanes.js";
import { drawChosenMessage, drawMessages } from "weft/messages.js";
import { drawNotes, outline } from "weft/shapes.js";
import { colours, thin } from "weft/theme.js";
import { drawTracks, paintColumns } from "weft/tracks.js";

/** @import { Context, Palette, Part, View } from "weft/drawn" */
/** @import { Api, Around, Axis, Call, Finding, Links, Message, MessageFacts, Replay, Run, Window } from "weft/sent" */
/** @import { State } from "weft/state.js" */

const MOST_CELLS = 8e5; // rows times columns that are asked for at once

export class Graph extends Hits {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Api} api
   * @param {Run} run
   * @param {State} state
   */
  constructor(canvas, api, run, state) {
    super(canvas, run, state);
    this.api = api;
    /** @type {Part<Lanes> | null} the whole run, coarsely: behind everything that is not there yet */
    this.whole = null;
    /** @type {Links & { axis?: string | null }} */
    this.links = { messages: [], bands: [], hidden: 0, bands_hidden: false, ready: false };
    /** @type {Call | null} details of the selected call */
    this.chosen = null;
    /** @type {(MessageFacts & { axis: string }) | null} facts of the chosen message */
    this.message = null;
    /** @type {Around | null} */
    this.around = null;
    /** @type {(Replay & { axis: string }) | null} how far the replay has come */
    this.replay = null;
    this.rowHeight = 0;
    /** @type {Map<string, number>} */
    this.widths = new Map();
    this.frame = 0;
    this.begun = 0;
    this.stale = false;
    this.stress = "";
    /** @type {Promise<void> | null} */
    this.waiting = null;
    this.openCalls = new Set(run.open.map(([, event, row]) => `${row}:${event}`));
    this.openIds = new Set(run.open.map(([rank, event]) => `${rank}:${event}`));
    /** @type {Map<number, number>} */
    this.rankRow = new Map();
    run.rows.forEach(([, rank], row) => {
      if (!this.rankRow.has(rank)) this.rankRow.set(rank, row);
    });
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  get grouping() {
    return this.state.grouping ?? bestGrouping(this.run);
  }

  /** @param {Axis} axis */
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

  /**
   * Takes a finding; its rows get room where they have little.
   * @param {Finding | null} finding
   */
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

  /** @returns {View} */
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
      rankY: (rank) => {
        const row = this.rankRow.get(rank);
        return row === undefined ? null : this.lanes.rowY[row];
      },
      isLast: (events, lane, i) => this.openCalls.has(`${this.lanes.lanes[lane].rows[0]}:${events[i]}`),
      isOpen: ([rank, event]) => this.openIds.has(`${rank}:${event}`),
      merged: (a, b) =>
        this.lanes.rowLane[a] === this.lanes.rowLane[b] && this.lanes.lanes[this.lanes.rowLane[a]]?.rows.length > 1,
      laneOf: (row) => this.lanes.lanes[this.lanes.rowLane[row]] ?? null,
      torn: () => Math.min(this.x(this.axis.end), this.width - 4),
      measure: (context, text) => this.measured(context, text),
    };
  }

  /**
   * @param {Context} context
   * @param {string} text
   */
  measured(context, text) {
    const known = this.widths.get(text);
    if (known !== undefined) return known;
    if (this.widths.size > 5000) this.widths.clear();
    const { width } = context.measureText(text);
    this.widths.set(text, width);
    return width;
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

  /**
   * @param {ReturnType<Graph["given"]>} given
   * @param {() => boolean} same
   */
  async fetchLinks(given, same) {
    const { axis, from, to, filter } = given;
    const links = await this.api.links({ axis, from, to, filter });
    if (!same() || this.stale) return;
    this.links = { ...links, axis };
    this.draw();
    this.canvas.dispatchEvent(new CustomEvent("counted"));
    if (!links.ready) setTimeout(() => this.load(), 700);
  }

  /** @param {unknown} error */
  failed(error) {
    announce(messageOf(error));
    this.canvas.dispatchEvent(new CustomEvent("failed", { detail: messageOf(error) }));
  }

  /**
   * @param {Window} data
   * @param {Lanes} lanes
   * @param {string} filter
   * @returns {Part<Lanes>}
   */
  painted(data, lanes, filter) {
    return {
      data,
      lanes,
      axis: this.state.axis,
      filtered: Boolean(filter),
      picture: paintColumns(data, lanes, devicePixelRatio || 1, Boolean(filter)),
    };
  }

  /** @param {Part<Lanes>} part */
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

  /**
   * @param {Part<Lanes> | null} part
   * @returns {part is Part<Lanes>}
   */
  current(part) {
    return part !== null && part.lanes === this.lanes && part.axis === this.state.axis;
  }

  /** @param {Part<Lanes> | null} part */
  fits(part) {
    return this.current(part) && part.data.from <= this.state.from && part.data.to >= this.state.to;
  }

  /**
   * @param {View} view
   * @param {Palette} palette
   */
  paintGround(view, palette) {
    const { context } = this;
    for (const lane of this.lanes.lanes) {
      if (lane.stressed) {
        context.fillStyle = thin(palette[this.finding?.severity ?? "error"], 0.1);
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

  /**
   * @param {View} view
   * @param {Palette} palette
   */
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
    if (this.chosen) this.paintChosen(this.chosen, view, palette);
    if (this.message?.axis === this.state.axis) drawChosenMessage(context, view, this.message);
    if (this.replay?.axis === this.state.axis) drawCut(context, view, this.replay, palette);
    drawNotes(context, view.notes);
    this.lines = view.lines;
    for (const mark of this.state.marks) this.paintLine(this.x(mark), palette.good, "");
    if (this.measure) this.paintMeasure(palette);
  }

  /**
   * Messages in the air are told what they were missed by: a receive of the same two ranks that wanted another tag.
   * @param {Message[]} messages
   */
  nearMisses(messages) {
    const air = messages.filter((m) => !m.to);
    if (!air.length) return messages;
    /** @type {Set<Message>} */
    const missed = new Set();
    /** @type {Map<Message, string>} */
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

  /**
   * @param {Call} chosen
   * @param {View} view
   * @param {Palette} palette
   */
  paintChosen(chosen, view, palette) {
    const { place, links } = chosen;
    if (links?.band) drawBands(this.context, view, [links.band], true);
    if (links) drawMessages(this.context, view, links.messages, true);
    outline(this.context, view, place[0], place[1], place[2], palette.accent);
  }

  static get gutter() {
    return GUTTER;
  }
  static get ruler() {
    return RULER;
  }
}
