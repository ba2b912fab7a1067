// Which rows are drawn where. A lane is one row, a few neighbours where there is no room for each, or a folded group.

import { plural } from "weft/units.js";

/** @import { Item } from "weft/drawn" */
/** @import { Run } from "weft/sent" */

const LEAST = 7; // pixels in which a row is told from its neighbours
const MERGED = 4; // pixels of a lane that stands for several rows
const TALL = 50; // pixels that calls take at least where there is room; more on a large screen
const TALLEST = 170;
const STRESSED = 26; // pixels of a row that the chosen finding is about, where others have less
const MOST_STRESSED = 16; // rows that are given more room
const HEAD = 20;
const FOLDED = 44; // pixels of a folded group; more on a large screen
const FOLD_FROM = 17; // groups of so many rows are folded at first, where there are many rows
const MANY = 65;

/**
 * The grouping that the page chooses: by behaviour where that makes many rows a few groups.
 * @param {Run} run
 */
export function bestGrouping(run) {
  const behaviour = run.groupings.behaviour;
  return run.rows.length >= MANY && behaviour && behaviour.length <= 24 ? "behaviour" : "";
}

/**
 * Names of the groups that are folded at first.
 * @param {Run} run
 * @param {string} grouping
 */
export function foldedAtFirst(run, grouping) {
  const groups = run.groupings[grouping] ?? [];
  return run.rows.length < MANY ? [] : groups.filter(([, rows]) => rows.length >= FOLD_FROM).map(([name]) => name);
}

export class Lanes {
  /** `height`: pixels there are; `rowHeight`: pixels a row was given by hand, 0 to fit; `stressed`: rows to stand out. */
  /**
   * @param {Run} run
   * @param {string} grouping
   * @param {Set<string>} folded
   * @param {number} height
   * @param {number} rowHeight
   * @param {Set<number>} stressed
   */
  constructor(run, grouping, folded, height, rowHeight, stressed = new Set()) {
    this.run = run;
    /** @type {Item[]} */
    this.items = [];
    this.each = 1; // rows of a lane
    this.stress = 0; // pixels of a row that stands out, 0 where all are high enough
    this.height = 0; // pixels of a row
    this.rowY = new Float64Array(run.rows.length);
    this.rowLane = new Int32Array(run.rows.length).fill(-1);
    /** @type {[name: string, rows: number[]][]} */
    const groups = grouping && run.groupings[grouping] ? run.groupings[grouping] : [["", run.rows.map((_, i) => i)]];
    const heads = groups.length > 1;
    const open = groups.filter(([name]) => !folded.has(name)).flatMap(([, rows]) => rows);
    this.stressed = new Set(open.filter((row) => stressed.has(row)));
    if (this.stressed.size > MOST_STRESSED || this.stressed.size === open.length) this.stressed.clear();
    const foldedHeight = Math.max(FOLDED, Math.min(110, height / 10));
    const folds = groups.length - groups.filter(([name]) => !folded.has(name)).length;
    this.fit(
      groups.filter(([name]) => !folded.has(name)),
      Math.max(40, height - Number(heads) * groups.length * HEAD - folds * foldedHeight - 6),
      rowHeight,
    );
    this.tall = Math.max(TALL, height / 22, Math.min(TALLEST, this.height * 0.46));
    let y = 3;
    for (const [name, rows] of groups) {
      if (heads) {
        this.items.push({ kind: "head", name, rows, y, height: HEAD, folded: folded.has(name) });
        y += HEAD;
      }
      if (folded.has(name)) y = this.lane(rows, y, foldedHeight, name);
      else for (const part of this.parts(rows)) y = this.lane(part, y, this.heightOf(part), "");
    }
    this.bottom = y;
    this.lanes = this.items.filter((item) => item.kind === "lane");
    this.lanes.forEach((lane, i) => {
      for (const row of lane.rows) this.rowLane[row] = i;
    });
    this.query = this.lanes.map((lane) => ranges(lane.rows)).join("|");
  }

  /**
   * How high a row is, and how many make a lane: those that must stand out have theirs first.
   * @param {[name: string, rows: number[]][]} groups
   * @param {number} room
   * @param {number} rowHeight
   */
  fit(groups, room, rowHeight) {
    const rows = groups.reduce((sum, [, of]) => sum + of.length, 0);
    this.height = rowHeight || (rows ? room / rows : room);
    if (this.height < STRESSED && this.stressed.size) {
      this.stress = STRESSED;
      const left = Math.max(room / 2, room - STRESSED * this.stressed.size);
      if (!rowHeight) this.height = left / (rows - this.stressed.size);
    }
    if (rowHeight || this.height >= LEAST) return;
    const left = this.height * (rows - (this.stress ? this.stressed.size : 0));
    this.each = Math.ceil(((rows - this.stressed.size) * MERGED) / left);
    const parts = groups.reduce((sum, [, of]) => sum + this.parts(of).filter((part) => !this.stands(part)).length, 0);
    this.height = Math.max(MERGED, left / Math.max(1, parts));
  }

  /**
   * The rows of each lane: neighbours, and those that stand out by themselves.
   * @param {number[]} rows
   */
  parts(rows) {
    /** @type {number[][]} */
    const found = [];
    for (const row of rows) {
      const last = found.at(-1);
      const alone = this.stress && this.stressed.has(row);
      if (!last || alone || last.length >= this.each || this.stands(last)) found.push([row]);
      else last.push(row);
    }
    return found;
  }

  /** @param {number[]} part */
  stands(part) {
    return Boolean(this.stress) && part.length === 1 && this.stressed.has(part[0]);
  }
  /** @param {number[]} part */
  heightOf(part) {
    return this.stands(part) ? Math.max(this.stress, this.height) : this.height;
  }

  /**
   * @param {number[]} rows
   * @param {number} y
   * @param {number} height
   * @param {string} group
   */
  lane(rows, y, height, group) {
    const most = group ? height * 0.8 : this.tall;
    const gap = height >= 14 ? Math.max(Math.min(10, height * 0.22), height - most) : height >= 6 ? 1 : 0;
    this.items.push({
      kind: "lane",
      rows,
      y: y + gap / 2,
      height: height - gap,
      group,
      label: this.label(rows, group),
      stressed: rows.some((row) => this.stressed.has(row)),
    });
    for (const row of rows) this.rowY[row] = y + height / 2;
    return y + height;
  }

  /**
   * @param {number[]} rows
   * @param {string} group
   */
  label(rows, group) {
    if (group) return plural(rows.length, "row");
    const first = this.run.rows[rows[0]][0];
    return rows.length === 1 ? first : `${first}–${this.run.rows[rows[rows.length - 1]][0]}`;
  }

  /** @param {number} y */
  at(y) {
    return this.items.find((item) => y >= item.y - 3 && y < item.y + item.height + 3) ?? null;
  }
}

/** @param {number[]} rows */
function ranges(rows) {
  /** @type {string[]} */
  const parts = [];
  for (let i = 0; i < rows.length; i += 1) {
    let j = i;
    while (j + 1 < rows.length && rows[j + 1] === rows[j] + 1) j += 1;
    parts.push(j > i ? `${rows[i]}-${rows[j]}` : `${rows[i]}`);
    i = j;
  }
  return parts.join(",");
}
