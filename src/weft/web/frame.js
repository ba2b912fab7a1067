// What stands around and behind the calls: ruler, labels of rows, folds, marks.

import { drawing } from "weft/dom.js";
import { taskName } from "weft/names.js";
import { endMark, note } from "weft/shapes.js";
import { thin } from "weft/theme.js";
import { duration, plural, tickLabel, ticks } from "weft/units.js";

/** @import { Item, Lane, Head, Palette, View } from "weft/drawn" */
/** @import { Axis, End, Finding, Run } from "weft/sent" */
/** @import { Lanes } from "weft/lanes.js" */
/** @import { State } from "weft/state.js" */

export const RULER = 26;
export const GUTTER = 92;
const LABEL = 13; // pixels of height that a label takes

/** The part of the graph that is no call; the graph itself has the rows, the axis and the window. */
export class Frame {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Run} run
   * @param {State} state
   */
  constructor(canvas, run, state) {
    this.canvas = canvas;
    this.context = drawing(canvas);
    this.run = run;
    this.state = state;
    this.scroll = 0;
    /** @type {Finding | null} */
    this.finding = null;
    /** @type {number | null} */
    this.hover = null;
    /** @type {[from: number, to: number] | null} what is measured, or chosen in the ruler */
    this.measure = null;
    /** @type {{ rows: number[], y: number, stressed: boolean }[]} rows whose labels found room */
    this.labelled = [];
  }

  /** @type {Axis} there is none before start() */
  axis;
  /** @type {Lanes} there are none before lay() */
  lanes;
  /** @type {{ finding: Finding | null, ranks: Set<number> } | undefined} */
  known;

  get width() {
    return Math.max(50, this.canvas.clientWidth - GUTTER);
  }
  get height() {
    return Math.max(50, this.canvas.clientHeight - RULER);
  }

  /**
   * Where a place of the axis is drawn.
   * @param {number} at
   */
  x(at) {
    return ((at - this.state.from) / (this.state.to - this.state.from)) * this.width;
  }

  /**
   * The place of the axis that is drawn somewhere.
   * @param {number} x
   */
  time(x) {
    return this.state.from + (x / this.width) * (this.state.to - this.state.from);
  }

  /** @param {Palette} palette */
  paintFolds(palette) {
    const { context } = this;
    for (const [at, width, start, end] of this.axis.folds) {
      const x = this.x(at);
      const wide = Math.max(3, this.x(at + width) - x);
      if (x + wide < 0 || x > this.width) continue;
      context.fillStyle = palette.paper;
      context.fillRect(x, 0, wide, this.lanes.bottom);
      context.strokeStyle = palette.quiet;
      context.lineWidth = 1;
      for (const side of [x, x + wide]) {
        context.beginPath();
        for (let y = 0; y < this.lanes.bottom; y += 6) context.lineTo(side + ((y / 6) % 2 ? 1.5 : -1.5), y);
        context.stroke();
      }
      context.save();
      context.translate(x + wide / 2, Math.min(this.height / 2 + this.scroll, this.lanes.bottom / 2));
      context.rotate(-Math.PI / 2);
      context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
      context.textAlign = "center";
      context.textBaseline = "middle";
      const text = `${duration(end - start)} folded`;
      context.fillStyle = palette.paper;
      const room = context.measureText(text).width + 8;
      context.fillRect(-room / 2, -7, room, 14);
      context.fillStyle = palette.quiet;
      context.fillText(text, 0, 0);
      context.restore();
    }
  }

  /**
   * @param {number} x
   * @param {string} colour
   * @param {string} text
   */
  paintLine(x, colour, text) {
    if (x < 0 || x > this.width) return;
    this.context.fillStyle = colour;
    this.context.fillRect(x - 0.5, 0, 1.5, Math.max(this.lanes.bottom, this.height));
    if (text) this.context.fillText(text, x + 4, 8 + this.scroll);
  }

  /** @param {Palette} palette */
  paintMeasure(palette) {
    const [from, to] = /** @type {number[]} */ (this.measure);
    const [a, b] = [this.x(from), this.x(to)].sort((p, q) => p - q);
    this.context.fillStyle = thin(palette.accent, 0.16);
    this.context.fillRect(a, this.scroll, b - a, this.height);
    this.paintLine(a, palette.accent, "");
    this.paintLine(b, palette.accent, "");
    this.context.font = "600 12px system-ui, 'DejaVu Sans', sans-serif";
    const text =
      this.state.axis === "logical"
        ? plural(Math.round(Math.abs(to - from)), "step")
        : duration(Math.abs(this.realTime(to) - this.realTime(from)));
    this.context.fillStyle = palette.accent;
    this.context.textAlign = "center";
    this.context.textBaseline = "middle";
    this.context.fillText(text, (a + b) / 2, 12 + this.scroll);
    this.context.textAlign = "start";
  }

  /**
   * The time that is drawn at a place of the axis.
   * @param {number} at
   */
  realTime(at) {
    let shift = 0;
    for (const [place, width, start, end] of this.axis.folds) {
      if (at >= place + width) shift = end - (place + width);
      else if (at > place) return start + ((at - place) / width) * (end - start);
    }
    return at + shift;
  }

  /** @param {Palette} palette */
  paintRuler(palette) {
    const { context } = this;
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, this.canvas.clientWidth, RULER);
    context.fillStyle = palette.line;
    context.fillRect(0, RULER - 1, this.canvas.clientWidth, 1);
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    const logical = this.state.axis === "logical";
    context.fillStyle = palette.quiet;
    context.fillText(logical ? "step" : "time", 10, RULER / 2);
    context.save();
    context.beginPath();
    context.rect(GUTTER, 0, this.width, RULER);
    context.clip();
    const { step, places } = ticks(this.state.from, this.state.to, Math.max(2, this.width / 110));
    let free = -Infinity;
    for (const at of places) {
      const x = GUTTER + this.x(at);
      context.fillStyle = palette.line;
      context.fillRect(x, RULER - 8, 1, 8);
      const text = logical ? String(Math.round(at)) : tickLabel(this.realTime(at), step);
      const wide = context.measureText(text).width;
      if (at < 0 || (logical && step < 1) || x < free || x + 4 + wide > GUTTER + this.width) continue;
      context.fillStyle = palette.quiet;
      context.fillText(text, x + 4, RULER / 2);
      free = x + wide + 12;
    }
    if (this.hover !== null) {
      context.fillStyle = palette.accent;
      context.fillRect(GUTTER + this.hover, 0, 1, RULER);
    }
    context.restore();
  }

  /** @param {Palette} palette */
  paintLabels(palette) {
    const { context } = this;
    context.save();
    context.beginPath();
    context.rect(0, RULER, this.canvas.clientWidth, this.height);
    context.clip();
    context.fillStyle = palette.paper;
    context.fillRect(0, RULER, GUTTER - 4, this.height);
    context.translate(0, RULER - this.scroll);
    context.textBaseline = "middle";
    this.labelled = [];
    /** @type {[top: number, bottom: number][]} */
    const taken = [];
    /**
     * @param {number} y
     * @param {number} tall
     */
    const place = (y, tall) => {
      if (y + tall < this.scroll || y - tall > this.scroll + this.height) return false;
      if (taken.some(([top, bottom]) => y - tall / 2 < bottom && y + tall / 2 > top)) return false;
      taken.push([y - tall / 2, y + tall / 2]);
      return true;
    };
    // Those that a finding is about come first: where there is no room for all labels, theirs stay.
    const order = this.lanes.items
      .map((item) => ({ weight: this.weight(item), item }))
      .sort((a, b) => b.weight - a.weight || a.item.y - b.item.y);
    for (const { item } of order) {
      const y = item.y + item.height / 2;
      if (item.kind === "head") {
        this.paintHead(item, y, palette);
        place(y, item.height);
      } else if (place(y, LABEL)) {
        this.paintLabel(item, y, palette);
        this.labelled.push({ rows: item.rows, y, stressed: item.stressed });
      }
    }
    context.restore();
    this.paintScrollbar(palette);
  }

  /** @param {Item} item */
  weight(item) {
    if (item.kind === "head") return 3;
    return item.stressed ? 2 : this.stateOf(item) || this.isTroubled(item) ? 1 : 0;
  }

  /**
   * @param {Head} item
   * @param {number} y
   * @param {Palette} palette
   */
  paintHead(item, y, palette) {
    const { context } = this;
    context.font = "600 11px system-ui, 'DejaVu Sans', sans-serif";
    const text = `${item.folded ? "▸" : "▾"} ${item.name} · ${plural(item.rows.length, "row")}`;
    const wide = context.measureText(text).width + 16;
    context.fillStyle = thin(palette.paper, 0.85);
    context.fillRect(0, item.y + 2, wide, item.height - 2);
    context.fillStyle = palette.ink;
    context.fillText(text, 8, y + 1);
  }

  /**
   * The word for a row whose record ends before its time, "" for others.
   * @param {Item} item
   */
  stateOf(item) {
    const state = item.rows.length === 1 ? this.run.rows[item.rows[0]][3] : "";
    return ["missing", "damaged", "aborted", "stopped"].includes(state) ? state : "";
  }

  /** @param {Item} item */
  isTroubled(item) {
    const ranks = this.troubled;
    return !item.group && item.rows.some((row) => ranks.has(this.run.rows[row][1]));
  }

  /**
   * @param {Lane} item
   * @param {number} y
   * @param {Palette} palette
   */
  paintLabel(item, y, palette) {
    const { context } = this;
    const state = this.stateOf(item);
    const trouble = this.isTroubled(item);
    const colour = state ? palette.error : (palette[this.finding?.severity ?? "error"] ?? palette.error);
    if (item.stressed) {
      context.fillStyle = thin(colour, 0.12);
      context.fillRect(0, item.y - 1, GUTTER - 4, item.height + 2);
      context.fillStyle = colour;
      context.fillRect(0, item.y - 1, 3, item.height + 2);
    }
    context.font = `${trouble ? "700 " : ""}${item.stressed ? 12 : 11}px system-ui, 'DejaVu Sans', sans-serif`;
    context.fillStyle = state || trouble ? colour : palette.ink;
    const name = item.rows.length > 1 || item.group ? "" : taskName(this.run.rows[item.rows[0]][1]);
    const words = `${item.rows.length > 1 ? "ranks" : "rank"} ${item.label}${state ? ` ${state}` : ""}`;
    const twice = name !== "" && item.height >= 2 * LABEL;
    const first = item.group
      ? item.label
      : name && !twice
        ? this.shortened(`${item.label} ${name}`, GUTTER - 16)
        : words;
    context.fillText(first, 10, y + 0.5 - (twice ? LABEL / 2 : 0), GUTTER - 16);
    if (twice) context.fillText(this.shortened(name, GUTTER), 10, y + 0.5 + LABEL / 2, GUTTER - 16);
  }

  /**
   * Where ranks ended before their time: a cross for what went wrong by itself, a square for what was ended from outside.
   * @param {Palette} palette
   * @param {View} view
   */
  paintEnds(palette, view) {
    const { context } = this;
    for (const end of this.axis.ends ?? []) {
      const lane = view.laneOf(end.row);
      const x = this.x(end.at);
      if (!lane || x < -20 || x > this.width + 20) continue;
      const size = Math.max(4, Math.min(9, lane.height / 2.4));
      endMark(context, x + size + 3, this.lanes.rowY[end.row], size, end.kind, palette);
      if (lane.rows.length === 1) this.endWords(view, lane, x, size, end, palette);
    }
  }

  /**
   * What an end was, below the row where there is room, else on the side of its mark that has some.
   * @param {View} view
   * @param {Lane} lane
   * @param {number} x
   * @param {number} size
   * @param {End} end
   * @param {Palette} palette
   */
  endWords(view, lane, x, size, end, palette) {
    const text = this.shortened(end.label, Math.min(560, this.width - 40));
    const wide = view.measure(this.context, text) * 1.15;
    const below = view.pitch - lane.height > 24;
    const left = below ? x - 4 : x + 2 * size + 10 + wide < this.width ? x + 2 * size + 10 : x - wide - 8;
    note(this.context, view, left, below ? lane.y + lane.height + 11 : this.lanes.rowY[end.row], text, palette.error);
  }

  /**
   * Words that take no more than some pixels; the tip of the row's label has them all.
   * @param {string} text
   * @param {number} room
   */
  shortened(text, room) {
    const most = Math.floor(room / 6.6);
    return text.length > most ? `${text.slice(0, Math.max(8, most - 1))}…` : text;
  }

  /** @param {Palette} palette */
  paintScrollbar(palette) {
    if (this.lanes.bottom <= this.height) return;
    const size = Math.max(24, (this.height * this.height) / this.lanes.bottom);
    const y = RULER + (this.scroll / (this.lanes.bottom - this.height)) * (this.height - size);
    this.context.fillStyle = thin(palette.quiet, 0.5);
    this.context.fillRect(this.canvas.clientWidth - 7, y, 5, size);
  }

  /** The ranks that the chosen finding is about; of a crowd only those that wait in a cycle; none of a note on all. */
  get troubled() {
    if (this.known?.finding !== this.finding)
      this.known = { finding: this.finding, ranks: troubledRanks(this.finding, this.run.ranks) };
    return this.known.ranks;
  }
}

/**
 * @param {Finding | null} finding
 * @param {number} count
 * @returns {Set<number>}
 */
function troubledRanks(finding, count) {
  if (!finding) return new Set();
  const { ranks, evidence, severity } = finding;
  if (severity !== "note") return new Set(ranks.length > 12 && evidence.cycle ? evidence.cycle : ranks);
  const all = new Set([...ranks, ...(evidence.waiting ?? []), ...(evidence.late ?? [])]);
  return all.size === count ? new Set() : all;
}
