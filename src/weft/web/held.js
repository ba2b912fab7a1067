// What an exported file holds of the calls: where each lies on an axis, and the columns and boxes of a stretch of it.

/** @import { Boxes, Exported, Id, Spot, Stretch, Window } from "weft/sent" */

const ROOM = 3;

export class Held {
  /** @param {Exported} data */
  constructor(data) {
    this.data = data;
    /** @type {Map<number, number[]>} by rank its rows */
    this.rowsOf = new Map();
    data.run.rows.forEach(([, rank], row) => this.rowsOf.set(rank, [...(this.rowsOf.get(rank) ?? []), row]));
    /** @type {Record<string, [starts: Float64Array, ends: Float64Array]>} */
    this.placed = {};
  }

  // Places

  /**
   * Starts and ends of all calls on an axis.
   * @param {string} axis
   * @returns {[starts: Float64Array, ends: Float64Array]}
   */
  places(axis) {
    const { data } = this;
    if (axis === "time") return [data.start, data.end];
    if (axis === "logical") return [data.step_start, data.step_end];
    this.placed[axis] ??= [data.start.map((t) => this.folded(t)), data.end.map((t) => this.folded(t))];
    return this.placed[axis];
  }

  /** @param {number} time */
  folded(time) {
    const { folds, measured, end } = this.data.axes.folded;
    const clock = this.data.axes.time;
    if (!folds.length) return time;
    if (time > clock.measured)
      return measured + ((time - clock.measured) / (clock.end - clock.measured)) * (end - measured);
    let place = time;
    for (const [at, width, start, stop] of folds) {
      if (time >= stop) place = at + width + (time - stop);
      else if (time > start) return at + ((time - start) / (stop - start)) * width;
    }
    return place;
  }

  /**
   * The place of a call among those in the file, -1 for none.
   * @param {number} rank
   * @param {number} event
   */
  index(rank, event) {
    for (const row of this.rowsOf.get(rank) ?? []) {
      let [low, high] = [this.data.row_first[row], this.data.row_first[row + 1]];
      const end = high;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (this.data.event[middle] < event) low = middle + 1;
        else high = middle;
      }
      if (low < end && this.data.event[low] === event) return low;
    }
    return -1;
  }

  /** @param {number} i */
  rowOf(i) {
    const first = this.data.row_first;
    let [low, high] = [0, first.length - 1];
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (first[middle] <= i) low = middle;
      else high = middle;
    }
    return low;
  }

  /**
   * Row, start and end of a call; null for one that is not in the file.
   * @param {string} axis
   * @param {Id} call
   * @returns {Spot | null}
   */
  at3(axis, [rank, event]) {
    const i = this.index(rank, event);
    if (i < 0) return null;
    const [starts, ends] = this.places(axis);
    return [this.rowOf(i), starts[i], ends[i]];
  }

  // Windows

  /**
   * @param {Stretch & { lanes: string, columns: number }} given
   * @returns {Promise<Window>}
   */
  async window({ axis, lanes, from, to, columns }) {
    const parsed = lanes.split("|").map((lane) =>
      lane.split(",").flatMap((part) => {
        const [first, last] = part.split("-").map(Number);
        return Array.from({ length: (last ?? first) - first + 1 }, (_, k) => first + k);
      }),
    );
    const exact = this.data.whole || this.detailed(axis, from, to);
    const classes = this.data.run.classes.length;
    const shares = new Float64Array(parsed.length * classes * columns);
    const events = parsed.map((rows, lane) =>
      rows.reduce(
        (sum, row) =>
          sum +
          (exact
            ? this.add(shares, lane, row, rows.length, axis, from, to, columns)
            : this.resample(shares, lane, row, rows.length, axis, from, to, columns)),
        0,
      ),
    );
    const used = [...Array(classes).keys()].filter((c) =>
      parsed.some((_, lane) => some(shares, (lane * classes + c) * columns, columns)),
    );
    const packed = new Uint8Array(parsed.length * used.length * columns);
    parsed.forEach((_, lane) =>
      used.forEach((c, k) => {
        for (let x = 0; x < columns; x += 1)
          packed[(lane * used.length + k) * columns + x] = level(shares[(lane * classes + c) * columns + x]);
      }),
    );
    const boxed = exact
      ? parsed.flatMap((rows, lane) => (rows.length === 1 && events[lane] * ROOM <= columns ? [lane] : []))
      : [];
    const found = {
      columns,
      lanes: parsed.length,
      from,
      to,
      events,
      outline: !exact,
      boxed,
      classes: used.map((c) => this.data.run.classes[c]),
      shares: packed,
    };
    return boxed.length ? { ...found, ...this.boxes(axis, from, to, boxed, parsed) } : found;
  }

  /**
   * @param {string} axis
   * @param {number} from
   * @param {number} to
   */
  detailed(axis, from, to) {
    /** @type {(time: number) => number} */
    const place = axis === "folded" ? (t) => this.folded(t) : (t) => t;
    return this.data.windows.some(([a, b]) => place(a) <= from && to <= Math.max(place(b), from) + 1);
  }

  /**
   * The calls of a row that are under way in [from, to), as [first, end).
   * @param {string} axis
   * @param {number} row
   * @param {number} from
   * @param {number} to
   */
  range(axis, row, from, to) {
    const [starts, ends] = this.places(axis);
    let first = this.data.row_first[row];
    let [low, high] = [first, this.data.row_first[row + 1]];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (starts[middle] < to) low = middle + 1;
      else high = middle;
    }
    const end = low;
    high = end;
    low = first;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ends[middle] <= from) low = middle + 1;
      else high = middle;
    }
    return [low, end];
  }

  /**
   * @param {Float64Array} shares
   * @param {number} lane
   * @param {number} row
   * @param {number} rows
   * @param {string} axis
   * @param {number} from
   * @param {number} to
   * @param {number} columns
   */
  add(shares, lane, row, rows, axis, from, to, columns) {
    const [starts, ends] = this.places(axis);
    const classes = this.data.run.classes.length;
    const [first, end] = this.range(axis, row, from, to);
    const scale = columns / (to - from);
    for (let i = first; i < end; i += 1) {
      const a = Math.max(0, (starts[i] - from) * scale);
      const b = Math.min(columns, (ends[i] - from) * scale);
      const base = (lane * classes + this.data.class[i]) * columns;
      for (let x = Math.floor(a); x < b; x += 1) shares[base + x] += (Math.min(b, x + 1) - Math.max(a, x)) / rows;
    }
    return end - first;
  }

  /**
   * Columns out of those of the whole run, where no single calls are in the file.
   * @param {Float64Array} shares
   * @param {number} lane
   * @param {number} row
   * @param {number} rows
   * @param {string} axis
   * @param {number} from
   * @param {number} to
   * @param {number} columns
   */
  resample(shares, lane, row, rows, axis, from, to, columns) {
    const all = axis === "folded" ? this.data.shares_folded : this.data.shares_time;
    const classes = this.data.run.classes.length;
    const wide = all.length / (this.data.run.rows.length * classes);
    const { end } = this.data.axes[axis];
    for (let x = 0; x < columns; x += 1) {
      const at = Math.floor(((from + ((x + 0.5) / columns) * (to - from)) / end) * wide);
      if (at < 0 || at >= wide) continue;
      for (let c = 0; c < classes; c += 1)
        shares[(lane * classes + c) * columns + x] += all[(row * classes + c) * wide + at] / 255 / rows;
    }
    return 0;
  }

  /**
   * @param {string} axis
   * @param {number} from
   * @param {number} to
   * @param {number[]} boxed
   * @param {number[][]} lanes
   * @returns {Boxes}
   */
  boxes(axis, from, to, boxed, lanes) {
    const [starts, ends] = this.places(axis);
    /** @type {number[]} */
    const indices = [];
    /** @type {number[]} */
    const lane = [];
    for (const b of boxed) {
      const [first, end] = this.range(axis, lanes[b][0], from, to);
      for (let i = first; i < end; i += 1) {
        indices.push(i);
        lane.push(b);
      }
    }
    /** @param {ArrayLike<number>} array */
    const taken = (array) => indices.map((i) => array[i]);
    const { data } = this;
    return {
      lane,
      start: taken(starts),
      end: taken(ends),
      event: taken(data.event),
      function: taken(data.function),
      class: taken(data.class),
      flags: taken(data.flags),
      peer: taken(data.peer),
      tag: taken(data.tag),
      fits: indices,
    };
  }
}

/**
 * @param {ArrayLike<number>} values
 * @param {number} from
 * @param {number} count
 */
function some(values, from, count) {
  for (let i = from; i < from + count; i += 1) if (values[i] > 0) return true;
  return false;
}

/** @param {number} share */
function level(share) {
  return share <= 0 ? 0 : Math.max(1, Math.min(255, Math.round(share * 255)));
}
