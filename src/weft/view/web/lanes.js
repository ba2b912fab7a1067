// Which rows are drawn where. A lane is one row, a few neighbours where there is no room for each, or a folded group.

const LEAST = 7; // pixels in which a row is told from its neighbours
const MERGED = 4; // pixels of a lane that stands for several rows
const MOST = 150; // pixels from row to row where there are few; more on a large screen
const TALL = 50; // of which the calls take no more than these; more on a large screen
const HEAD = 20;
const FOLDED = 44; // pixels of a folded group; more on a large screen
const FOLD_FROM = 17; // groups of so many rows are folded at first, where there are many rows
const MANY = 65;

/** The grouping that the page chooses: by behaviour where that makes many rows a few groups. */
export function bestGrouping(run) {
  const behaviour = run.groupings.behaviour;
  return run.rows.length >= MANY && behaviour && behaviour.length <= 24 ? "behaviour" : "";
}

/** Names of the groups that are folded at first. */
export function foldedAtFirst(run, grouping) {
  const groups = run.groupings[grouping] ?? [];
  return run.rows.length < MANY ? [] : groups.filter(([, rows]) => rows.length >= FOLD_FROM).map(([name]) => name);
}

export class Lanes {
  /** `height`: pixels there are; `rowHeight`: pixels a row was given by hand, 0 to fit. */
  constructor(run, grouping, folded, height, rowHeight) {
    this.run = run;
    this.items = [];
    this.rowY = new Float64Array(run.rows.length);
    this.rowLane = new Int32Array(run.rows.length).fill(-1);
    const groups = grouping && run.groupings[grouping] ? run.groupings[grouping] : [["", run.rows.map((_, i) => i)]];
    const heads = groups.length > 1 ? groups.length : 0;
    const folds = groups.filter(([name]) => folded.has(name)).length;
    const single = groups.reduce((sum, [name, rows]) => sum + (folded.has(name) ? 0 : rows.length), 0);
    this.tall = Math.max(TALL, height / 22);
    const foldedHeight = Math.max(FOLDED, Math.min(110, height / 10));
    const room = Math.max(40, height - heads * HEAD - folds * foldedHeight - 6);
    const most = Math.max(MOST, height / 6.5);
    const fit = single ? room / single : most;
    this.each = rowHeight ? 1 : fit >= LEAST ? 1 : Math.ceil((single * MERGED) / room);
    this.height = rowHeight || (this.each === 1 ? Math.min(most, fit) : Math.max(MERGED, (room / single) * this.each));
    let y = 3;
    for (const [name, rows] of groups) {
      if (heads) {
        this.items.push({ kind: "head", name, rows, y, height: HEAD, folded: folded.has(name) });
        y += HEAD;
      }
      y = folded.has(name) ? this.lane(rows, y, foldedHeight, name) : this.single(rows, y);
    }
    this.bottom = y;
    this.lanes = this.items.filter((item) => item.kind === "lane");
    this.lanes.forEach((lane, i) => { for (const row of lane.rows) this.rowLane[row] = i; });
    this.query = this.lanes.map((lane) => ranges(lane.rows)).join("|");
  }

  single(rows, from) {
    let y = from;
    for (let i = 0; i < rows.length; i += this.each) y = this.lane(rows.slice(i, i + this.each), y, this.height, "");
    return y;
  }

  lane(rows, y, height, group) {
    const most = group ? height * 0.8 : this.tall;
    const gap = height >= 14 ? Math.max(Math.min(10, height * 0.22), height - most) : height >= 6 ? 1 : 0;
    this.items.push({ kind: "lane", rows, y: y + gap / 2, height: height - gap, group, label: this.label(rows, group) });
    for (const row of rows) this.rowY[row] = y + height / 2;
    return y + height;
  }

  label(rows, group) {
    if (group) return `${rows.length} rows`;
    const first = this.run.rows[rows[0]][0];
    return rows.length === 1 ? first : `${first}–${this.run.rows[rows.at(-1)][0]}`;
  }

  at(y) {
    return this.items.find((item) => y >= item.y - 3 && y < item.y + item.height + 3) ?? null;
  }
}

function ranges(rows) {
  const parts = [];
  for (let i = 0; i < rows.length; i += 1) {
    let j = i;
    while (j + 1 < rows.length && rows[j + 1] === rows[j] + 1) j += 1;
    parts.push(j > i ? `${rows[i]}-${rows[j]}` : `${rows[i]}`);
    i = j;
  }
  return parts.join(",");
}
