// Answers the page out of its own file, as the server would (src/weft/view/html_export.py says what is in it).

import { Held } from "weft/held.js";
import { unpack } from "weft/packed.js";

/** @import { Api, Band, CallFacts, Exported, Found, Id, Message, Spot, Stretch } from "weft/sent" */

/** @param {string} text */
export async function offline(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new File(unpack(await new Response(stream).arrayBuffer()));
}

/** @implements {Api} */
class File extends Held {
  exported = true;

  /** @param {string} axis */
  has(axis) {
    return axis in this.data.axes;
  }

  async run() {
    return this.data.run;
  }

  /** @param {string} axis */
  async axis(axis) {
    if (!this.has(axis))
      throw new Error("logical time is not in this file: the run is too large for it. Use weft view");
    return this.data.axes[axis];
  }

  /** @param {string} axis */
  async findings(axis) {
    return this.data.findings[axis];
  }
  async tables() {
    return { ...this.data.tables, fixed: true };
  }

  /**
   * @param {number} rank
   * @param {number} event
   */
  async tip(rank, event) {
    const known = this.data.details[`${rank}:${event}`];
    return known ? known.tip : { peer: null, tag: null, bytes: null, site: "?" };
  }

  /**
   * @param {string} axis
   * @param {string} side
   * @param {number} row
   */
  async message(axis, side, row) {
    const m = this.data.messages.find(
      (one) => one.row === row && (one.kind === "unmatched-receive") === (side === "receive"),
    );
    const told = this.data.message_facts[`${side}:${row}`];
    if (!m || !told) throw new Error("this message is not in this file: use weft view");
    const arrow = this.placedMessage(axis, m);
    if (!arrow) throw new Error("the calls of this message are not in this file: use weft view");
    const ends = [told.send, told.post, told.receive].filter((end) => end !== null);
    const places = ends.map((end) => this.at3(axis, end.event)).filter((spot) => spot !== null);
    return { ...told, arrow, places };
  }
  /** @returns {Promise<never>} */
  async replay() {
    throw new Error("this file has no program behind it: use weft view");
  }
  /** @returns {Promise<never>} */
  async move() {
    throw new Error("this file has no program behind it: use weft view");
  }
  /** @returns {Promise<never>} */
  async search() {
    throw new Error("this file cannot be filtered: use weft view");
  }

  // Links

  /** @param {Stretch} given */
  async links({ axis, from, to }) {
    /** @param {[row: number, start: number, end: number, ...more: unknown[]]} part */
    const seen = ([, start, end]) => start <= to && end >= from;
    const messages = this.data.messages
      .map((m) => this.placedMessage(axis, m))
      .filter((m) => m !== null)
      .filter((m) => (m.to ? m.from[1] <= to && m.to[1] >= from : seen([0, m.from[1], m.end])));
    const bands = this.data.bands
      .map((b) => this.band(axis, b))
      .filter((b) => b !== null)
      .filter((b) => b.parts.some(seen));
    const few = messages.length <= 500;
    return {
      ready: true,
      messages: few ? messages : messages.filter((m) => m.ns !== undefined || !m.to).slice(0, 60),
      bands: bands.length <= 120 ? bands : [],
      hidden: few ? 0 : messages.length,
      bands_hidden: bands.length > 120,
    };
  }

  /**
   * @param {string} axis
   * @param {Exported["messages"][number]} m
   * @returns {Message | null}
   */
  placedMessage(axis, m) {
    if (m.send) {
      const [a, b] = [this.at3(axis, m.send), this.at3(axis, m.receive)];
      return a && b ? { ...m, from: [a[0], a[1]], to: [b[0], b[2]] } : null;
    }
    const place = this.at3(axis, m.event);
    return place ? { ...m, from: [place[0], place[1]], end: place[2] } : null;
  }

  /**
   * @param {string} axis
   * @param {Exported["bands"][number]} b
   * @returns {Band | null}
   */
  band(axis, b) {
    const parts = b.parts
      .map(([row, begin, done]) => {
        const rank = this.data.run.rows[row][1];
        const [a, z] = [this.at3(axis, [rank, begin]), this.at3(axis, [rank, done])];
        return a && z ? /** @type {Band["parts"][number]} */ ([row, a[1], z[2], begin]) : null;
      })
      .filter((part) => part !== null);
    return parts.length ? { ...b, parts } : null;
  }

  // Calls

  /**
   * @param {Stretch & { row: number }} given
   * @returns {Promise<Found>}
   */
  async at({ axis, row, from, to }) {
    const [starts, ends] = this.places(axis);
    const [first, end] = this.range(axis, row, from, to);
    let best = -1;
    let most = -1;
    for (let i = first; i < end; i += 1) {
      const inside = Math.min(ends[i], to) - Math.max(starts[i], from);
      if (inside > most) {
        most = inside;
        best = i;
      }
    }
    return { event: best < 0 ? null : [this.data.run.rows[row][1], this.data.event[best]], calls: end - first };
  }

  /**
   * @param {string} axis
   * @param {number} rank
   * @param {number} event
   */
  async event(axis, rank, event) {
    const i = this.index(rank, event);
    const known = this.data.details[`${rank}:${event}`];
    if (i < 0) throw new Error(`call ${event} of rank ${rank} is not in this file: use weft view`);
    /** @param {Id} call */
    const mine = ([r, e]) => r === rank && e === event;
    const messages = this.data.messages.filter((m) =>
      m.send ? mine(m.send) || mine(m.receive) || (m.post && mine(m.post)) : mine(m.event),
    );
    const band = this.data.bands.find((b) =>
      b.parts.some(([row, begin]) => this.data.run.rows[row][1] === rank && begin === event),
    );
    return {
      ...(known ? { ...known, source: this.data.sources[known.source ?? ""] ?? null } : this.bare(i, rank, event)),
      place: /** @type {Spot} */ (this.at3(axis, [rank, event])), // it is there: i is its index
      links: {
        messages: messages.map((m) => this.placedMessage(axis, m)).filter((m) => m !== null),
        band: band ? this.band(axis, band) : null,
      },
    };
  }

  /**
   * What is known of a call whose arguments are not in the file.
   * @param {number} i
   * @param {number} rank
   * @param {number} event
   * @returns {CallFacts}
   */
  bare(i, rank, event) {
    const { data } = this;
    const open = !(data.flags[i] & 1);
    const name = data.run.functions[data.function[i]]?.[0] ?? "?";
    return {
      rank,
      event,
      thread: 0,
      function: name,
      text: name,
      open,
      error: 0,
      error_text: "",
      enter_ns: data.start[i],
      exit_ns: open ? null : data.end[i],
      duration_ns: open ? null : data.end[i] - data.start[i],
      args: [],
      polls: 0,
      state: "",
      status: null,
      cancelled: false,
      buffer_changed: false,
      damage: "only its times are in this file",
      site: { text: "?", callers: [] },
      source: null,
      replay: "",
      partners: [],
      findings: [],
      count: data.row_first[this.rowOf(i) + 1] - data.row_first[this.rowOf(i)],
    };
  }

  /**
   * @param {string} axis
   * @param {number} rank
   * @param {number} event
   */
  async around(axis, rank, event) {
    const shade = this.data.shades[`${rank}:${event}`];
    /** @type {null[]} */
    const none = this.data.run.rows.map(() => null);
    if (!shade) return { past: none, future: none };
    /**
     * @param {[event: number, end: boolean] | null} point
     * @param {number} row
     */
    const place = (point, row) => {
      const at = point && this.at3(axis, [this.data.run.rows[row][1], point[0]]);
      return at ? at[point[1] ? 2 : 1] : null;
    };
    return { past: shade.past.map(place), future: shade.future.map(place) };
  }
}
