// The calls: columns of true shares where many calls meet a pixel, boxes with labels where there is room.

import { torn } from "weft/shapes.js";
import { colours, rgb, textOn, thin } from "weft/theme.js";
import { duration } from "weft/units.js";

/** @import { Context, Part, Strips, View } from "weft/drawn" */
/** @import { Boxes, Columns } from "weft/sent" */

const CLOSED = 1;
const TWO_LINES = 40; // pixels of height from which a box says how long it took
const STACKED = 8; // pixels of height from which shares are stacked; below they are mixed into one colour

/**
 * The columns of a window as a picture, one pixel a column; made once and then drawn at any scale.
 * @param {Columns} data
 * @param {Strips} lanes
 * @param {number} ratio
 * @param {boolean} filtered
 */
export function paintColumns(data, lanes, ratio, filtered) {
  const height = Math.max(1, Math.ceil(lanes.bottom * ratio));
  const canvas = new OffscreenCanvas(data.columns, height);
  const context = /** @type {OffscreenCanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(data.columns, height);
  const pixels = new Uint32Array(image.data.buffer);
  const palette = data.classes.map((name) => rgb(colours()[name]));
  const track = rgb(colours().track);
  const boxed = new Set(data.boxed);
  lanes.lanes.forEach((lane, i) => {
    if (boxed.has(i)) return;
    const top = Math.round(lane.y * ratio);
    const tall = Math.max(1, Math.round((lane.y + lane.height) * ratio) - top);
    const paint = lane.height >= STACKED ? stack : mix;
    paint(pixels, data, i, top, tall, palette, track, filtered);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * @param {number[]} rgb
 * @param {number} [alpha]
 */
const packed = ([r, g, b], alpha = 255) => ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;

/**
 * @param {Uint32Array} pixels
 * @param {Columns} data
 * @param {number} lane
 * @param {number} top
 * @param {number} tall
 * @param {number[][]} palette
 * @param {number[]} track
 * @param {boolean} filtered
 */
function stack(pixels, data, lane, top, tall, palette, track, filtered) {
  const { columns, shares, hits } = data;
  const used = palette.length;
  const colour = palette.map((c) => packed(c));
  const pale = palette.map((c) => packed(c, 60));
  const base = packed(track);
  for (let x = 0; x < columns; x += 1) {
    const chosen = filtered && !hits?.[lane * columns + x] ? pale : colour;
    let y = top + tall;
    for (let c = 0; c < used; c += 1) {
      const share = shares[(lane * used + c) * columns + x];
      if (!share) continue;
      const to = Math.max(top, y - Math.max(1, Math.round((share / 255) * tall)));
      for (let k = to; k < y; k += 1) pixels[k * columns + x] = chosen[c];
      y = to;
    }
    for (let k = top; k < y; k += 1) pixels[k * columns + x] = base;
  }
}

/**
 * @param {Uint32Array} pixels
 * @param {Columns} data
 * @param {number} lane
 * @param {number} top
 * @param {number} tall
 * @param {number[][]} palette
 * @param {number[]} track
 * @param {boolean} filtered
 */
function mix(pixels, data, lane, top, tall, palette, track, filtered) {
  const { columns, shares, hits } = data;
  const used = palette.length;
  for (let x = 0; x < columns; x += 1) {
    let [r, g, b, left] = [0, 0, 0, 255];
    for (let c = 0; c < used; c += 1) {
      const share = Math.min(left, shares[(lane * used + c) * columns + x]);
      left -= share;
      r += palette[c][0] * share;
      g += palette[c][1] * share;
      b += palette[c][2] * share;
    }
    const colour = packed(
      [(r + track[0] * left) / 255, (g + track[1] * left) / 255, (b + track[2] * left) / 255],
      filtered && !hits?.[lane * columns + x] ? 60 : 255,
    );
    for (let k = top; k < top + tall; k += 1) pixels[k * columns + x] = colour;
  }
}

/**
 * Draws what a view shows of a window, stale or not: its columns scaled, its boxes where they are.
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Part} part
 */
export function drawTracks(context, view, part) {
  const { data, lanes, picture } = part;
  const x0 = view.x(data.from);
  const x1 = view.x(data.to);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, 0, 0, data.columns, picture.height, x0, 0, x1 - x0, picture.height / view.ratio);
  for (const i of data.boxed) {
    const lane = lanes.lanes[i];
    if (!lane) continue;
    context.fillStyle = colours().track;
    context.fillRect(Math.max(0, x0), lane.y, Math.min(view.width, x1) - Math.max(0, x0), lane.height);
  }
  drawBoxes(context, view, part);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {View} view
 * @param {Part} part
 */
function drawBoxes(context, view, { data, lanes, filtered }) {
  if (!data.start) return;
  const palette = colours();
  const names = view.run.classes;
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  for (let i = 0; i < data.start.length; i += 1) {
    const lane = lanes.lanes[data.lane[i]];
    const x = view.x(data.start[i]);
    const end = Math.min(view.x(data.end[i]), view.width + 20);
    if (!lane || end < 0 || x > view.width) continue;
    const left = Math.max(x, -20);
    const width = Math.max(1, end - left);
    const open = !(data.flags[i] & CLOSED);
    const colour = palette[names[data.class[i]]];
    context.fillStyle = filtered && !data.fits[i] ? thin(colour, 0.22) : colour;
    if (open && view.isLast(data.event, data.lane[i], i))
      torn(context, left, view.torn(), lane.y, lane.height, context.fillStyle, palette.paper);
    else if (width > 5 && lane.height > 9) rounded(context, left, lane.y, width - 0.5, lane.height);
    else context.fillRect(left, lane.y, width > 2 ? width - 0.5 : width, lane.height);
    if (width > 26 && lane.height >= 11)
      label(context, view, data, i, {
        lane,
        x: Math.max(0, left),
        end: Math.min(end, view.width),
        open,
        pale: filtered && !data.fits[i],
      });
  }
}

/**
 * @param {Context} context
 * @param {number} x
 * @param {number} y
 * @param {number} width
 * @param {number} height
 */
function rounded(context, x, y, width, height) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(3, width / 3));
  context.fill();
}

/**
 * @param {Context} context
 * @param {View} view
 * @param {Boxes} data
 * @param {number} i
 * @param {{ lane: { y: number, height: number }, x: number, end: number, open: boolean, pale: boolean }} how
 */
function label(context, view, data, i, { lane, x, end, open, pale }) {
  const [name] = view.run.functions[data.function[i]] ?? ["?"];
  const word = name.replace(/^MPI_|_c$/g, "");
  const wide = `${word}${partner(view, data, i)}${open ? " (never returned)" : ""}`;
  const room = end - x - 8;
  const text = [wide, `${word}${open ? " …" : ""}`, word].find((t) => view.measure(context, t) <= room);
  if (!text) return;
  const colour = colours()[view.run.classes[data.class[i]]];
  const two = lane.height >= TWO_LINES + 14 && !open && view.clock;
  const took = two ? duration(view.realTime(data.end[i]) - view.realTime(data.start[i])) : "";
  const lines = took && view.measure(context, took) <= room ? [text, took] : [text];
  // Arrows begin and end in the middle of a row: where there is room words stand above it.
  const y = lane.height >= TWO_LINES ? lane.y + 12.5 : lane.y + lane.height / 2 + 0.5;
  if (open) {
    context.fillStyle = pale ? colours().track : colour;
    context.fillRect(x + 2, y - 8.5, view.measure(context, text) + 6, 17);
  }
  context.fillStyle = pale ? colours().quiet : textOn(colour);
  lines.forEach((line, k) => context.fillText(line, x + 4, y + k * 15));
}

/**
 * @param {View} view
 * @param {Boxes} data
 * @param {number} i
 */
function partner(view, data, i) {
  const kind = view.run.classes[data.class[i]];
  if (kind !== "send" && kind !== "receive") return "";
  const peer = data.peer[i] === -1 ? "any" : data.peer[i] < -1 ? "nobody" : data.peer[i];
  const tag = data.tag[i] === -1 ? "" : ` #${data.tag[i]}`;
  return `${kind === "send" ? " →" : " ←"} ${peer}${tag}`;
}
