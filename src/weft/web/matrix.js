// Who sent how much to whom, as a picture with axes and a scale.

import { drawing, el } from "weft/dom.js";
import { rankName } from "weft/names.js";
import { colours, thin } from "weft/theme.js";
import { bytes, count, plural } from "weft/units.js";

/** @import { Context, Palette } from "weft/drawn" */

const CELLS = 256; // pixels of the square
const [LEFT, TOP, RIGHT, BOTTOM] = [54, 40, 96, 8];
const PALE = 0.12;

/**
 * What is drawn: the values of `n` by `n` cells of `cell` pixels.
 * @typedef {{
 *   values: number[][], messages: number[][], n: number, name: (i: number) => string,
 *   unit: (value: number) => string, what: string, most: number, least: number, cell: number,
 * }} Shown
 */

/**
 * A canvas of the messages of `data` ({ messages, bytes } from row to column); `name(i)` is a row's, `go(i, j)` a click.
 * @param {{ messages: number[][], bytes: number[][] }} data
 * @param {(i: number) => string} name
 * @param {(i: number, j: number) => void} go
 */
export function matrixPicture({ messages, bytes: sizes }, name, go) {
  const sized = sizes.some((line) => line.some(Boolean));
  const n = messages.length;
  const values = sized ? sizes : messages;
  const present = values.flatMap((line, i) => line.filter((_, j) => messages[i][j]));
  /** @type {Shown} */
  const shown = {
    values,
    messages,
    n,
    name,
    unit: sized ? bytes : count,
    what: sized ? "bytes" : "messages",
    most: Math.max(...present),
    least: Math.min(...present),
    cell: Math.max(1, Math.floor(CELLS / n)),
  };
  const side = shown.cell * n;
  const ratio = devicePixelRatio || 1;
  const [wide, high] = [LEFT + side + RIGHT, TOP + side + BOTTOM];
  const canvas = el("canvas", {
    width: wide * ratio,
    height: high * ratio,
    role: "img",
    "aria-label": `${shown.what} from rank (row) to rank (column); the table beside it has the numbers`,
  });
  canvas.style.width = `${wide}px`;
  canvas.style.height = `${high}px`;
  const context = drawing(canvas);
  context.scale(ratio, ratio);
  paint(context, shown, side);
  /**
   * @param {MouseEvent} event
   * @returns {[i: number, j: number]}
   */
  const cell = (event) => [
    Math.floor((event.offsetY - TOP) / shown.cell),
    Math.floor((event.offsetX - LEFT) / shown.cell),
  ];
  /** @param {number} i */
  const full = (i) => (/^\d+$/.test(name(i)) ? rankName(Number(name(i))) : `ranks ${name(i)}`);
  /** @param {[i: number, j: number]} at */
  const sent = ([i, j]) => i >= 0 && j >= 0 && messages[i]?.[j];
  canvas.addEventListener("click", (event) => {
    if (sent(cell(event))) go(...cell(event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const [i, j] = cell(event);
    canvas.style.cursor = sent([i, j]) ? "pointer" : "default";
    canvas.title = sent([i, j])
      ? `${full(i)} to ${full(j)}: ${plural(messages[i][j], "message")}, ${bytes(sizes[i][j])}`
      : "";
  });
  return canvas;
}

/**
 * How strongly a cell is coloured: by the logarithm, from the least that was sent to the most.
 * @param {number} value
 * @param {Shown} of
 */
function strength(value, { least, most }) {
  const whole = Math.log1p(most) - Math.log1p(least);
  return whole ? PALE + (1 - PALE) * ((Math.log1p(value) - Math.log1p(least)) / whole) : 1;
}

/**
 * @param {Context} context
 * @param {Shown} shown
 * @param {number} side
 */
function paint(context, shown, side) {
  const palette = colours();
  const { values, messages, n, cell } = shown;
  context.fillStyle = palette.paper;
  context.fillRect(LEFT, TOP, side, side);
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < n; j += 1) {
      if (!messages[i][j]) continue;
      context.fillStyle = thin(palette.accent, strength(values[i][j], shown));
      context.fillRect(LEFT + j * cell, TOP + i * cell, cell > 4 ? cell - 1 : cell, cell > 4 ? cell - 1 : cell);
    }
  }
  context.strokeStyle = palette.line;
  context.strokeRect(LEFT - 0.5, TOP - 0.5, side + 1, side + 1);
  axes(context, shown, side, palette);
  scale(context, shown, side, palette);
}

/**
 * @param {Context} context
 * @param {Shown} of
 * @param {number} side
 * @param {Palette} palette
 */
function axes(context, { n, cell, name }, side, palette) {
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.fillStyle = palette.quiet;
  context.textBaseline = "middle";
  /** @param {number} room */
  const every = (room) => [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64].find((step) => step * cell >= room) ?? 64;
  const wide = context.measureText(name(n - 1)).width + 10;
  context.textAlign = "center";
  for (let j = 0; j < n; j += every(Math.max(18, wide))) context.fillText(name(j), LEFT + (j + 0.5) * cell, TOP - 9);
  context.textAlign = "right";
  for (let i = 0; i < n; i += every(15)) context.fillText(name(i), LEFT - 6, TOP + (i + 0.5) * cell);
  context.fillStyle = palette.ink;
  context.textAlign = "center";
  context.fillText("to rank →", LEFT + Math.max(side / 2, 30), TOP - 26);
  context.save();
  context.translate(8, TOP + Math.max(side / 2, 34));
  context.rotate(-Math.PI / 2);
  context.fillText("← from rank", 0, 0);
  context.restore();
}

/**
 * The bar beside it: which colour is how much. Steps are those of the logarithm.
 * @param {Context} context
 * @param {Shown} of
 * @param {number} side
 * @param {Palette} palette
 */
function scale(context, { most, least, unit, what }, side, palette) {
  const x = LEFT + side + 22;
  const tall = Math.min(side, 140);
  for (let y = 0; y < tall; y += 1) {
    context.fillStyle = thin(palette.accent, least < most ? PALE + (1 - PALE) * (1 - y / tall) : 1);
    context.fillRect(x, TOP + y, 12, 1);
  }
  context.strokeStyle = palette.line;
  context.strokeRect(x - 0.5, TOP - 0.5, 13, tall + 1);
  context.textAlign = "left";
  context.fillStyle = palette.ink;
  context.fillText(what, x, TOP - 14);
  context.fillStyle = palette.quiet;
  const middle = Math.expm1((Math.log1p(most) + Math.log1p(least)) / 2);
  const places =
    least < most
      ? [
          [most, 0],
          [middle, 0.5],
          [least, 1],
        ]
      : [[most, 0.5]];
  for (const [value, at] of places) context.fillText(unit(Math.round(value)), x + 18, TOP + 5 + at * (tall - 10));
}
