// The shapes that the graph and its legend are drawn with.

import { colours, thin } from "weft/theme.js";

/** @import { Context, Note, Palette, View } from "weft/drawn" */

/**
 * @param {Context} context
 * @param {number} x1
 * @param {number} y1
 * @param {number} x2
 * @param {number} y2
 * @param {{ colour: string, width: number, dash?: number[], head?: number }} how
 */
export function arrow(context, x1, y1, x2, y2, { colour, width, dash = [], head = 6 }) {
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
  context.setLineDash([]);
  point(context, x2, y2, Math.atan2(y2 - y1, x2 - x1), head);
}

/**
 * @param {Context} context
 * @param {number} x
 * @param {number} y
 * @param {number} angle
 * @param {number} size
 */
export function point(context, x, y, angle, size) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size * Math.cos(angle - 0.45), y - size * Math.sin(angle - 0.45));
  context.lineTo(x - size * Math.cos(angle + 0.45), y - size * Math.sin(angle + 0.45));
  context.closePath();
  context.fill();
}

/**
 * @param {Context} context
 * @param {number} x
 * @param {number} y
 * @param {string} colour
 * @param {number} [size]
 */
export function cross(context, x, y, colour, size = 4) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x - size, y - size);
  context.lineTo(x + size, y + size);
  context.moveTo(x + size, y - size);
  context.lineTo(x - size, y + size);
  context.stroke();
}

/**
 * The end of a rank: a cross where it went wrong by itself, a square where it was ended, a ring where nothing is known.
 * @param {Context} context
 * @param {number} x
 * @param {number} y
 * @param {number} size
 * @param {string} kind
 * @param {Palette} palette
 */
export function endMark(context, x, y, size, kind, palette) {
  context.lineWidth = 2.5;
  context.fillStyle = palette.paper;
  context.strokeStyle = palette.error;
  context.beginPath();
  if (kind === "abort" || kind === "killed") context.rect(x - size * 0.8, y - size * 0.8, size * 1.6, size * 1.6);
  else context.arc(x, y, size, 0, 7);
  context.fill();
  context.stroke();
  if (kind === "exception" || kind === "crash" || kind === "exit") cross(context, x, y, palette.error, size * 0.48);
}

/**
 * A message that ends in the air.
 * @param {Context} context
 * @param {[x: number, y: number]} from
 * @param {[x: number, y: number]} to
 * @param {{ colour: string, width: number, sent: boolean }} how
 */
export function stub(context, from, to, { colour, width, sent }) {
  context.strokeStyle = colour;
  context.fillStyle = colour;
  context.lineWidth = width;
  context.setLineDash([5, 3]);
  context.beginPath();
  context.moveTo(...from);
  context.lineTo(...to);
  context.stroke();
  context.setLineDash([]);
  if (!sent) point(context, ...from, Math.atan2(from[1] - to[1], from[0] - to[0]), 6);
  cross(context, ...to, colour);
}

/**
 * The arc of who waits for whom, with a dot at the one who waits.
 * @param {Context} context
 * @param {number} x
 * @param {number} from
 * @param {number} to
 * @param {{ colour: string, ground: string, width: number, bulge: number, dot?: number, head?: number }} how
 */
export function arc(context, x, from, to, { colour, ground, width, bulge, dot = 4, head = 12 }) {
  for (const { stroke, wide } of [
    { stroke: ground, wide: width + 3 },
    { stroke: colour, wide: width },
  ]) {
    context.strokeStyle = stroke;
    context.lineWidth = wide;
    context.beginPath();
    context.moveTo(x, from);
    context.bezierCurveTo(x - bulge, from + (to - from) * 0.1, x - bulge, to - (to - from) * 0.1, x, to);
    context.stroke();
  }
  for (const { fill, size } of [
    { fill: ground, size: dot + 2 },
    { fill: colour, size: dot },
  ]) {
    context.fillStyle = fill;
    context.beginPath();
    context.arc(x, from, size, 0, 7);
    context.fill();
  }
  point(context, x + Math.sign(bulge) * 2, to, Math.atan2((to - from) * 0.1, bulge), head);
}

/**
 * The line of a call that never returned: it runs into a torn edge.
 * @param {Context} context
 * @param {number} x
 * @param {number} edge
 * @param {number} top
 * @param {number} height
 * @param {string} colour
 * @param {string} ground
 */
export function torn(context, x, edge, top, height, colour, ground) {
  const teeth = Math.max(2, Math.round(height / 8));
  const step = height / teeth;
  context.save();
  context.fillStyle = colour;
  context.beginPath();
  context.moveTo(x, top);
  context.lineTo(edge, top);
  for (let k = 0; k < teeth; k += 1) {
    context.lineTo(edge - 8, top + (k + 0.5) * step);
    context.lineTo(edge, top + (k + 1) * step);
  }
  context.lineTo(x, top + height);
  context.closePath();
  context.fill();
  if (height >= 6) {
    context.clip();
    context.strokeStyle = thin(ground, 0.35);
    context.lineWidth = 2;
    for (let at = Math.max(x, -height) - height; at < edge; at += 9) {
      context.beginPath();
      context.moveTo(at, top + height);
      context.lineTo(at + height, top);
      context.stroke();
    }
  }
  context.restore();
}

const NOTE = "600 11px system-ui, 'DejaVu Sans', sans-serif";

/**
 * A few words on a ground of their own, inside the picture, where there are none yet; they are drawn above all else.
 * @param {Context} context
 * @param {View} view
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {string} colour
 */
export function note(context, view, x, y, text, colour) {
  context.font = NOTE;
  const width = context.measureText(text).width;
  const left = Math.max(4, Math.min(x, view.width - width - 8));
  const box = { left: left - 3, top: y - 8, right: left + width + 4, bottom: y + 8, text, colour };
  if (view.notes.some((o) => o.left < box.right && box.left < o.right && o.top < box.bottom && box.top < o.bottom))
    return;
  view.notes.push(box);
}

/**
 * @param {Context} context
 * @param {Note[]} notes
 */
export function drawNotes(context, notes) {
  context.font = NOTE;
  context.textBaseline = "middle";
  for (const { left, top, right, text, colour } of notes) {
    context.fillStyle = thin(colours().paper, 0.92);
    context.beginPath();
    context.roundRect(left, top, right - left, 16, 4);
    context.fill();
    context.fillStyle = colour;
    context.fillText(text, left + 3, top + 8.5);
  }
}

/**
 * A frame around a call.
 * @param {Context} context
 * @param {View} view
 * @param {number} row
 * @param {number} start
 * @param {number} end
 * @param {string} colour
 * @param {number} [width]
 */
export function outline(context, view, row, start, end, colour, width = 2) {
  const lane = view.laneOf(row);
  if (!lane) return;
  const left = Math.max(-4, view.x(start) - 1.5);
  const right = Math.min(view.x(end), view.torn()) + 1.5;
  if (right < 0 || left > view.width) return;
  const height = lane.rows.length === 1 ? lane.height : 6;
  const top = lane.rows.length === 1 ? lane.y : view.rowY(row) - 3;
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.roundRect(left, top - 1.5, Math.max(4, right - left), height + 3, 4);
  context.stroke();
}
