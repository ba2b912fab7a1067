// How far a replay has come: a line through all rows, behind which nothing has happened yet; and the calls to stop at.

import { thin } from "weft/theme.js";

/** @import { Context, Lane, Palette, View } from "weft/drawn" */
/** @import { Replay, Stands } from "weft/sent" */

const [FLAG, DOT] = [6, 4.5]; // pixels: the flags in the rows, the dots of the stops

/** @typedef {{ lane: Lane, x: number, focus: boolean }} Crossing */

/**
 * Where a row of a replay is crossed, on the axis.
 * @param {Stands} row
 */
export function crossedAt(row) {
  return row.at && row.at[row.side === "end" ? 2 : 1];
}

/**
 * Where the line crosses the lanes, from above; of rows that share a lane the one that has come least far.
 * @param {View} view
 * @param {Replay} replay
 * @returns {Crossing[]}
 */
export function crossings(view, replay) {
  /** @type {Map<Lane, Crossing>} */
  const found = new Map();
  for (const row of replay.ranks) {
    const at = crossedAt(row);
    const lane = row.at && view.laneOf(row.at[0]);
    if (at === null || !lane) continue;
    const x = Math.max(-30, Math.min(view.width + 30, view.x(at)));
    const known = found.get(lane);
    const focus = row.rank === replay.focus || Boolean(known?.focus);
    found.set(lane, { lane, x: Math.min(x, known?.x ?? x), focus });
  }
  return [...found.values()].sort((a, b) => a.lane.y - b.lane.y);
}

/**
 * @param {Context} context
 * @param {View} view
 * @param {Replay} replay
 * @param {Palette} palette
 */
export function drawCut(context, view, replay, palette) {
  for (const [, , row, start] of replay.stops) {
    const lane = view.laneOf(row);
    if (lane) dot(context, view.x(start), view.rowY(row), palette);
  }
  const line = crossings(view, replay);
  if (!line.length) return;
  const points = line.flatMap(({ lane, x }) => [
    [x, lane.y - 2],
    [x, lane.y + lane.height + 2],
  ]);
  trace(context, points);
  context.lineTo(view.width + 40, points[points.length - 1][1]);
  context.lineTo(view.width + 40, points[0][1]);
  context.closePath();
  context.fillStyle = thin(palette.paper, 0.55);
  context.fill();
  trace(context, points);
  context.strokeStyle = palette.ink;
  context.lineWidth = 1.5;
  context.stroke();
  for (const { lane, x, focus } of line) flag(context, x, lane.y + lane.height / 2, focus ? FLAG + 3 : FLAG, palette);
}

/**
 * @param {Context} context
 * @param {number[][]} points
 */
function trace(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
}

/**
 * Where a rank stands: a flag that points to what comes.
 * @param {Context} context
 * @param {number} x
 * @param {number} y
 * @param {number} size
 * @param {Palette} palette
 */
export function flag(context, x, y, size, palette) {
  context.beginPath();
  context.moveTo(x, y - size);
  context.lineTo(x + size * 1.3, y);
  context.lineTo(x, y + size);
  context.closePath();
  context.fillStyle = palette.accent;
  context.fill();
  context.strokeStyle = palette.paper;
  context.lineWidth = 1;
  context.stroke();
}

/**
 * A call that the replay stops before.
 * @param {Context} context
 * @param {number} x
 * @param {number} y
 * @param {Palette} palette
 */
export function dot(context, x, y, palette) {
  context.beginPath();
  context.arc(x, y, DOT, 0, 7);
  context.fillStyle = palette.error;
  context.fill();
  context.strokeStyle = palette.paper;
  context.lineWidth = 1.5;
  context.stroke();
}
