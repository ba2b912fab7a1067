// What lies under a place of the graph: rows, messages, calls. Places are pixels of the canvas.

import { Frame, GUTTER, RULER } from "weft/frame.js";
import { messageAt } from "weft/messages.js";

/** @import { Drawn, Hit, Part } from "weft/drawn" */
/** @import { Place, Run } from "weft/sent" */
/** @import { Lanes } from "weft/lanes.js" */
/** @import { State } from "weft/state.js" */

/** The part of the graph that is pointed at; the graph itself asks for the calls and draws them. */
export class Hits extends Frame {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Run} run
   * @param {State} state
   */
  constructor(canvas, run, state) {
    super(canvas, run, state);
    /** @type {Part<Lanes> | null} what was drawn last */
    this.part = null;
    /** @type {Drawn[]} where messages are drawn */
    this.lines = [];
  }

  /**
   * @param {number} x
   * @param {number} y
   * @returns {Hit}
   */
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

  /**
   * The message under a place, null for none: in the row of one of its ends a call comes first.
   * @param {Hit} hit
   * @param {number} [reach]
   */
  messageAt(hit, reach = 6) {
    if (hit.kind !== "lane") return null;
    const { item } = hit;
    const inside = item && hit.y >= item.y && hit.y <= item.y + item.height;
    /** @param {Place | undefined} end */
    const isMine = (end) => end !== undefined && item?.rows.includes(end[0]);
    const lines = inside ? this.lines.filter(({ message: m }) => !isMine(m.from) && !isMine(m.to)) : this.lines;
    return messageAt(lines, hit.x, hit.y, inside ? reach / 2 : reach);
  }

  /**
   * The box under a place, as an index into the window's boxes, -1 for none.
   * @param {Hit} hit
   */
  boxAt(hit) {
    const data = this.part?.data;
    if (hit.kind !== "lane" || !data?.start || hit.index < 0 || !data.boxed.includes(hit.index)) return -1;
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

  /**
   * Shares of the classes in the column under a place.
   * @param {Hit} hit
   */
  sharesAt(hit) {
    const data = this.part?.data;
    if (hit.kind !== "lane" || !data || hit.index < 0 || data.boxed.includes(hit.index)) return [];
    const column = Math.floor(((hit.at - data.from) / (data.to - data.from)) * data.columns);
    if (column < 0 || column >= data.columns) return [];
    const used = data.classes.length;
    const share = (/** @type {number} */ c) => data.shares[(hit.index * used + c) * data.columns + column] / 255;
    return data.classes.map((name, c) => ({ name, share: share(c) })).filter((one) => one.share > 0);
  }
}
