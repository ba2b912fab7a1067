// The error over an array as a picture: one dimension as columns, two as cells, of more a slice.

import { drawing } from "weft/dom.js";
import { css, errorText, hatch, ramp, shareOf, theme } from "weft/ramp.js";
import { colours } from "weft/theme.js";
import { ticks } from "weft/units.js";

/** @import { Palette } from "weft/drawn" */
/** @import { Field, Layer, ValuesApi } from "weft/sent" */
/** @import { Colour } from "weft/ramp.js" */

/** @typedef {[first: number, end: number]} Side */

const [LEFT, TOP, RIGHT, BOTTOM] = [64, 34, 128, 12];
const MOST = 1024; // cells in a direction, as the server has it
const NOTHING = -1;
const BAR = 14;

export class ErrorPicture {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {ValuesApi} api
   */
  constructor(canvas, api) {
    this.canvas = canvas;
    this.context = drawing(canvas);
    this.api = api;
    this.at = 0;
    /** @type {Layer | null} */
    this.layer = null;
    this.unit = "distance";
    /** @type {number[]} the dimensions that are drawn, rows first */
    this.axes = [];
    /** @type {Side[]} */
    this.window = [];
    /** @type {number[]} the element that is pointed at, from 0 on */
    this.cursor = [];
    /** @type {Field | null} */
    this.data = null;
    this.waiting = 0;
    /** @type {AbortController | null} */
    this.asking = null;
    new ResizeObserver(() => this.load()).observe(canvas);
  }

  /**
   * Shows an array of a moment; the element that differs first is pointed at, and in the slice.
   * @param {number} at
   * @param {Layer} layer
   */
  async show(at, layer) {
    const same = this.layer && String(this.layer.whole) === String(layer.whole);
    this.at = at;
    this.layer = layer;
    if (!same) {
      const dims = layer.whole.length;
      this.axes = dims === 1 ? [0] : [dims - 2, dims - 1];
    }
    if (!same || layer.first) this.cursor = layer.first ?? layer.whole.map(([first]) => first);
    this.whole();
    await this.load();
  }

  /** All of the two dimensions that are drawn, and of the others the slice that the cursor is in. */
  whole() {
    if (!this.layer) return;
    this.window = this.layer.whole.map((side, d) =>
      this.axes.includes(d) ? side : [this.cursor[d], this.cursor[d] + 1],
    );
  }

  /** How large the picture is. */
  get size() {
    const { clientWidth, clientHeight } = this.canvas;
    return { width: Math.max(20, clientWidth - LEFT - RIGHT), height: Math.max(20, clientHeight - TOP - BOTTOM) };
  }

  async load() {
    const { layer, axes } = this;
    if (!layer || !this.canvas.clientHeight) return;
    const { width, height } = this.size;
    const most = axes.length === 1 ? [width] : [height, width];
    this.asking?.abort();
    this.asking = new AbortController();
    this.waiting += 1;
    try {
      this.data = await this.api.field(
        {
          at: this.at,
          layer: layer.number,
          window: this.window.map((side) => side.join(":")).join(","),
          axes: axes.join(","),
          most: most.map((n) => Math.min(MOST, Math.floor(n))).join(","),
          unit: this.unit,
        },
        this.asking.signal,
      );
      this.paint();
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
    } finally {
      this.waiting -= 1;
    }
  }

  /** The window's sides that are drawn, rows first. */
  get sides() {
    const sides = this.axes.map((axis) => this.window[axis]);
    /** @type {Side} */
    const one = [0, 1];
    return sides.length === 1 ? [one, sides[0]] : sides;
  }

  /** The cells in both directions. */
  get shape() {
    const shape = this.data?.shape ?? [1, 1];
    return shape.length === 1 ? [1, shape[0]] : shape;
  }

  /** The least and the largest error that have a size; null where nothing differs. @returns {[number, number] | null} */
  get range() {
    let [least, most] = [Infinity, 0];
    for (const cell of this.data?.cells ?? []) {
      if (cell <= 0 || cell === Infinity) continue;
      least = Math.min(least, cell);
      most = Math.max(most, cell);
    }
    return most ? [least, most] : null;
  }

  paint() {
    const { canvas, context, data } = this;
    const ratio = devicePixelRatio || 1;
    canvas.width = canvas.clientWidth * ratio;
    canvas.height = canvas.clientHeight * ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const palette = colours();
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    if (!data || !this.layer) return;
    const range = this.range;
    if (this.axes.length === 1) this.curve(palette, data, range);
    else this.cells(palette, data, range);
    const { width, height } = this.size;
    context.strokeStyle = palette.line;
    context.strokeRect(LEFT - 0.5, TOP - 0.5, width + 1, height + 1);
    this.labels(palette);
    this.scale(palette, range);
    this.point(palette);
  }

  /**
   * @param {Palette} palette
   * @param {Field} data
   * @param {[number, number] | null} range
   */
  cells(palette, data, range) {
    const [rows, columns] = this.shape;
    const { width, height } = this.size;
    const picture = new ImageData(columns, rows);
    const alike = hex(palette.track);
    const mode = theme();
    data.cells.forEach((cell, i) => {
      const colour = cell > 0 ? ramp(shareOf(cell, range), mode) : alike;
      picture.data.set([...colour, cell === NOTHING ? 0 : 255], i * 4);
    });
    hatch(this.context, { x: LEFT, y: TOP, width, height }, palette.line);
    const sheet = new OffscreenCanvas(columns, rows);
    sheet.getContext("2d")?.putImageData(picture, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(sheet, LEFT, TOP, width, height);
  }

  /**
   * One dimension: the higher the larger, by the logarithm.
   * @param {Palette} palette
   * @param {Field} data
   * @param {[number, number] | null} range
   */
  curve(palette, data, range) {
    const { context } = this;
    const { width, height } = this.size;
    const step = width / data.cells.length;
    data.cells.forEach((cell, i) => {
      const x = LEFT + i * step;
      const wide = Math.max(1, step > 4 ? step - 1 : step);
      if (cell === NOTHING) hatch(context, { x, y: TOP, width: wide, height }, palette.line);
      else {
        const share = cell > 0 ? shareOf(cell, range) : 0;
        const tall = cell > 0 ? 8 + (height - 8) * share : 3;
        context.fillStyle = cell > 0 ? css(ramp(share, theme())) : palette.line;
        context.fillRect(x, TOP + height - tall, wide, tall);
      }
    });
  }

  /** @param {Palette} palette */
  labels(palette) {
    const { context, axes, layer } = this;
    if (!layer) return;
    const { width, height } = this.size;
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = palette.quiet;
    const [rows, columns] = this.sides;
    context.textAlign = "center";
    for (const [at, place] of indices(columns, width / 60)) {
      context.fillText(String(at + layer.base), LEFT + place * width, TOP - 9);
    }
    context.textAlign = "right";
    if (axes.length > 1) {
      for (const [at, place] of indices(rows, height / 24)) {
        context.fillText(String(at + layer.base), LEFT - 6, TOP + place * height);
      }
    }
    context.fillStyle = palette.ink;
    context.textAlign = "left";
    context.fillText(this.title, LEFT, 9);
  }

  /** What is drawn, in words: A[3, rows, columns]. */
  get title() {
    const { layer, axes } = this;
    if (!layer) return "";
    const names = this.window.map(([first, end], d) => {
      if (axes.length === 1 && axes[0] === d) return "→";
      if (axes.includes(d)) return axes[0] === d ? "↓" : "→";
      return end - first > 1 ? "all" : String(first + layer.base);
    });
    const pair = layer.base ? ["(", ")"] : ["[", "]"];
    return `the error of ${layer.name}${pair[0]}${names.join(", ")}${pair[1]}`;
  }

  /**
   * The bar beside it: which colour is how much.
   * @param {Palette} palette
   * @param {[number, number] | null} range
   */
  scale(palette, range) {
    const { context } = this;
    const { width, height } = this.size;
    const x = LEFT + width + 16;
    const tall = Math.max(10, Math.min(150, height - 60));
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    context.textAlign = "left";
    context.fillStyle = palette.ink;
    context.fillText(this.unit === "ulps" ? "units in the last place" : "apart", x, 9);
    if (range) {
      for (let y = 0; y < tall; y += 1) {
        context.fillStyle = css(ramp(range[0] < range[1] ? 1 - y / tall : 1, theme()));
        context.fillRect(x, TOP + y, BAR, 1);
      }
      context.fillStyle = palette.quiet;
      const places = range[0] < range[1] ? [0, 0.5, 1] : [0.5];
      for (const place of places) {
        const value = 10 ** (Math.log10(range[1]) * (1 - place) + Math.log10(range[0]) * place);
        context.fillText(errorText(value), x + BAR + 6, TOP + 5 + place * (tall - 10));
      }
    }
    /** @type {[y: number, words: string][]} */
    const rest = [
      [TOP + tall + 14, "alike"],
      [TOP + tall + 32, "not in both"],
    ];
    for (const [y, words] of rest) {
      if (words === "alike") {
        context.fillStyle = this.axes.length === 1 ? palette.line : palette.track;
        context.fillRect(x, y - 6, BAR, 12);
      } else hatch(context, { x, y: y - 6, width: BAR, height: 12 }, palette.line);
      context.strokeStyle = palette.line;
      context.strokeRect(x - 0.5, y - 6.5, BAR + 1, 13);
      context.fillStyle = palette.quiet;
      context.fillText(words, x + BAR + 6, y);
    }
  }

  /**
   * Where an element lies: the middle of its cell, and the cell's size.
   * @param {number[]} element
   */
  spot(element) {
    const [rows, columns] = this.sides;
    const [i, j] = this.axes.length === 1 ? [0, element[this.axes[0]]] : this.axes.map((axis) => element[axis]);
    const [high, wide] = this.shape;
    const { width, height } = this.size;
    const row = Math.floor(((i - rows[0]) * high) / (rows[1] - rows[0]));
    const column = Math.floor(((j - columns[0]) * wide) / (columns[1] - columns[0]));
    const inside = row >= 0 && row < high && column >= 0 && column < wide;
    const [w, h] = [width / wide, height / high];
    return { inside, row, column, x: LEFT + column * w, y: TOP + row * h, width: w, height: h };
  }

  /** @param {Palette} palette */
  point(palette) {
    const { inside, x, y, width, height } = this.spot(this.cursor);
    if (!inside) return;
    const [wide, high] = [Math.max(width, 7), Math.max(height, 7)];
    this.context.strokeStyle = palette.accent;
    this.context.lineWidth = 2;
    this.context.strokeRect(x + (width - wide) / 2, y + (height - high) / 2, wide, high);
    this.context.lineWidth = 1;
  }

  /**
   * The element at a place of the canvas, null beside the picture.
   * @param {number} x
   * @param {number} y
   */
  elementAt(x, y) {
    const { width, height } = this.size;
    if (x < LEFT || x >= LEFT + width || y < TOP || y >= TOP + height) return null;
    const shares = [(y - TOP) / height, (x - LEFT) / width];
    const found = [...this.cursor];
    this.axes.forEach((axis, k) => {
      const [first, end] = this.window[axis];
      found[axis] = first + Math.floor((this.axes.length === 1 ? shares[1] : shares[k]) * (end - first));
    });
    return found;
  }

  /**
   * Moves the cursor by so many elements of a dimension that is drawn (of a cell, where cells hold several).
   * @param {number} rows
   * @param {number} columns
   */
  step(rows, columns) {
    const by = this.axes.length === 1 ? [columns || rows] : [rows, columns];
    this.axes.forEach((axis, k) => {
      const [first, end] = this.window[axis];
      const cell = Math.max(1, Math.ceil((end - first) / (this.data?.shape[k] ?? 1)));
      this.cursor[axis] = Math.max(first, Math.min(end - 1, this.cursor[axis] + by[k] * cell));
    });
    this.paint();
  }

  /**
   * Another slice: the index of a dimension that is not drawn.
   * @param {number} axis
   * @param {number} index
   */
  async slice(axis, index) {
    if (!this.layer || this.axes.includes(axis)) return;
    const [first, end] = this.layer.whole[axis];
    this.cursor[axis] = Math.max(first, Math.min(end - 1, index));
    this.window[axis] = [this.cursor[axis], this.cursor[axis] + 1];
    await this.load();
  }

  /**
   * Closer to the cursor, or further away.
   * @param {number} factor
   */
  async zoom(factor) {
    const { layer } = this;
    if (!layer) return;
    for (const axis of this.axes) {
      const [low, high] = layer.whole[axis];
      const [first, end] = this.window[axis];
      const wide = Math.max(Math.min(4, high - low), Math.min(high - low, Math.round((end - first) * factor)));
      const share = (this.cursor[axis] - first) / (end - first);
      const begin = Math.max(low, Math.min(high - wide, Math.round(this.cursor[axis] - share * wide)));
      this.window[axis] = [begin, begin + wide];
    }
    await this.load();
  }

  /** The cursor at the largest error: closer and closer, until its cell is one element. */
  async worst() {
    for (let times = 0; times < 12 && this.data; times += 1) {
      const { cells, shape } = this.data;
      const most = cells.reduce((best, cell, i) => (cell > cells[best] ? i : best), 0);
      if (cells[most] <= 0) return;
      const place = shape.length === 1 ? [most] : [Math.floor(most / shape[1]), most % shape[1]];
      const each = this.axes.map((axis, k) => (this.window[axis][1] - this.window[axis][0]) / shape[k]);
      this.axes.forEach((axis, k) => {
        this.cursor[axis] = Math.ceil(this.window[axis][0] + place[k] * each[k]);
      });
      if (each.every((n) => n <= 1)) break;
      this.axes.forEach((axis, k) => {
        const first = this.cursor[axis];
        this.window[axis] = [first, Math.min(this.window[axis][1], first + Math.max(1, Math.ceil(each[k])))];
      });
      await this.load();
    }
    this.whole();
    await this.load();
  }

  /** The largest error in the cursor's cell, and how many elements that has. */
  get pointed() {
    const { inside, row, column } = this.spot(this.cursor);
    const [, wide] = this.shape;
    const cells = this.axes.map(
      (axis, k) => (this.window[axis][1] - this.window[axis][0]) / (this.data?.shape[k] ?? 1),
    );
    const cell = inside ? (this.data?.cells[row * wide + column] ?? NOTHING) : NOTHING;
    return { cell, elements: cells.reduce((all, n) => all * n, 1) };
  }
}

/**
 * @param {string} text
 * @returns {Colour}
 */
function hex(text) {
  /** @param {number} i */
  const part = (i) => parseInt(text.slice(i, i + 2), 16);
  return [part(1), part(3), part(5)];
}

/**
 * Round indices of a side, about `most` of them, and the share at which each one's middle lies.
 * @param {Side} side
 * @param {number} most
 * @returns {[at: number, share: number][]}
 */
function indices([first, end], most) {
  const found = ticks(first, end, Math.max(2, most)).places.filter((at) => Number.isInteger(at) && at < end);
  return found.map((at) => [at, (at + 0.5 - first) / (end - first)]);
}
