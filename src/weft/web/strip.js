// Both runs over their moments: ranks are rows, the reference above; what differs is coloured by how much.

import { drawing } from "weft/dom.js";
import { css, hatch, ramp, shareOf, theme } from "weft/ramp.js";
import { colours, thin } from "weft/theme.js";

/** @import { Palette } from "weft/drawn" */
/** @import { Strip, Values, ValuesApi } from "weft/sent" */

export const [NONE, ALIKE, ROUNDED, ALONE, UNSEEN, DIFFERS] = [0, 1, 2, 3, 4, 5];
const [LEFT, TOP, HEAD, GAP] = [112, 20, 18, 6];
const TALLEST = 26;

export class Moments {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {ValuesApi} api
   * @param {Values} told
   */
  constructor(canvas, api, told) {
    this.canvas = canvas;
    this.context = drawing(canvas);
    this.api = api;
    this.told = told;
    this.chosen = 0;
    this.from = 0;
    this.to = 1;
    /** @type {Strip | null} */
    this.data = null;
    this.waiting = 0;
    /** @type {AbortController | null} */
    this.asking = null;
    new ResizeObserver(() => this.show(this.from, this.to)).observe(canvas);
  }

  get width() {
    return Math.max(1, this.canvas.clientWidth - LEFT - 8);
  }

  /** @param {number} at */
  x(at) {
    return LEFT + ((at - this.from) / (this.to - this.from)) * this.width;
  }

  /** @param {number} x */
  at(x) {
    return Math.floor(this.from + ((x - LEFT) / this.width) * (this.to - this.from));
  }

  /** The rows of both runs: where each begins, and how high it is. */
  get rows() {
    const count = this.told.ranks[0].length + this.told.ranks[1].length;
    const room = this.canvas.clientHeight - TOP - 2 * HEAD - GAP - 2;
    const high = Math.max(0.5, Math.min(TALLEST, room / count));
    const first = TOP + HEAD;
    return { high, first, second: first + high * this.told.ranks[0].length + GAP + HEAD };
  }

  /**
   * The window in moments.
   * @param {number} from
   * @param {number} to
   */
  async show(from, to) {
    this.from = from;
    this.to = to;
    this.paint();
    const [first, end] = [Math.max(0, Math.floor(from)), Math.min(this.told.moments, Math.ceil(to))];
    if (end <= first) return;
    this.asking?.abort();
    this.asking = new AbortController();
    this.waiting += 1;
    try {
      const columns = Math.min(end - first, Math.round(this.width));
      this.data = await this.api.strip({ from: first, to: end, columns }, this.asking.signal);
      this.paint();
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
    } finally {
      this.waiting -= 1;
    }
  }

  paint() {
    const { canvas, context } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const palette = colours();
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, width, height);
    this.shade(palette);
    this.names(palette);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, this.width, height);
    context.clip();
    if (this.data) {
      this.ruler(palette, this.data);
      this.cells(palette, this.data);
    }
    this.mark(palette);
    context.restore();
  }

  /**
   * Behind the values: of each rank the stretch behind its first difference.
   * @param {Palette} palette
   */
  shade(palette) {
    const { high, second } = this.rows;
    this.context.fillStyle = thin(palette.warning, 0.2);
    for (const [row, at] of this.told.spread) {
      const x = Math.max(LEFT, this.x(at));
      if (x < LEFT + this.width) this.context.fillRect(x, second + row * high, LEFT + this.width - x, high);
    }
  }

  /** @param {Palette} palette */
  names(palette) {
    const { context } = this;
    const { high, first, second } = this.rows;
    context.textBaseline = "middle";
    [first, second].forEach((top, side) => {
      context.font = "600 11px system-ui, 'DejaVu Sans', sans-serif";
      context.fillStyle = palette.ink;
      context.textAlign = "left";
      context.fillText(`${side ? "the run" : "the reference"}: ${this.told.names[side]}`, 8, top - HEAD / 2);
      context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
      context.fillStyle = palette.quiet;
      context.textAlign = "right";
      const every = Math.max(1, Math.ceil(13 / high));
      this.told.ranks[side].forEach((name, row) => {
        if (row % every === 0) context.fillText(name, LEFT - 8, top + (row + 0.5) * high, LEFT - 14);
      });
    });
  }

  /**
   * @param {Palette} palette
   * @param {Strip} data
   */
  ruler(palette, data) {
    const { context } = this;
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    context.fillStyle = palette.quiet;
    context.strokeStyle = palette.line;
    context.textAlign = "left";
    for (const [at, text] of data.ticks) {
      const x = Math.round(this.x(at)) + 0.5;
      context.beginPath();
      context.moveTo(x, 2);
      context.lineTo(x, TOP - 4);
      context.stroke();
      context.fillText(text, x + 4, TOP / 2);
    }
  }

  /**
   * @param {Palette} palette
   * @param {Strip} data
   */
  cells(palette, data) {
    const { high, first, second } = this.rows;
    const span = (data.to - data.from) / data.columns;
    // What differs comes last: where rows are thinner than a pixel it is not painted over.
    for (const wanted of [ALIKE, ROUNDED, ALONE, UNSEEN, DIFFERS]) {
      [data.reference, data.run].forEach((states, side) => {
        for (let i = 0; i < states.length; i += 1) {
          if (states[i] !== wanted) continue;
          const column = i % data.columns;
          const row = (i - column) / data.columns;
          const x = this.x(data.from + column * span);
          const wide = Math.max(1, this.x(data.from + (column + 1) * span) - x);
          const box = { x, y: (side ? second : first) + row * high, width: wide > 4 ? wide - 1 : wide, height: high };
          this.cell(box, wanted, side ? data.error[i] : 0, palette);
        }
      });
    }
  }

  /**
   * @param {{ x: number, y: number, width: number, height: number }} box
   * @param {number} state
   * @param {number} error
   * @param {Palette} palette
   */
  cell({ x, y, width, height }, state, error, palette) {
    const { context } = this;
    const inset = height > 8 ? 2 : 0;
    if (state === DIFFERS) {
      context.fillStyle = css(ramp(shareOf(error, this.told.errors), theme()));
      context.fillRect(x, y + inset / 2, width, height - inset);
      return;
    }
    const [top, tall] = height > 8 ? [y + height * 0.28, height * 0.44] : [y, height];
    if (state === UNSEEN) hatch(context, { x, y: top, width, height: tall }, palette.quiet);
    else if (state === ALONE && width > 5) {
      context.strokeStyle = palette.warning;
      context.strokeRect(x + 0.5, top + 0.5, width - 1, tall - 1);
    } else {
      context.fillStyle = state === ALONE ? palette.warning : state === ROUNDED ? palette.note : palette.line;
      context.fillRect(x, top, width, tall);
    }
  }

  /**
   * The chosen moment, in both runs.
   * @param {Palette} palette
   */
  mark(palette) {
    const { context } = this;
    const [x, end] = [this.x(this.chosen), this.x(this.chosen + 1)];
    const { high, first, second } = this.rows;
    context.strokeStyle = palette.accent;
    context.lineWidth = 2;
    const wide = Math.max(4, end - x);
    this.told.ranks.forEach((ranks, side) => {
      context.strokeRect((x + end - wide) / 2, (side ? second : first) - 2, wide, ranks.length * high + 4);
    });
    context.lineWidth = 1;
  }
}
