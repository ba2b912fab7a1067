// What differs between two runs, drawn into one of them: where each rank differs first and what follows, other messages.

import { arrow, outline } from "weft/shapes.js";
import { thin } from "weft/theme.js";

/** @import { Context, Palette, View } from "weft/drawn" */
/** @import { Side } from "weft/beside.js" */

const DASHES = [4, 3]; // around what holds other bytes

/**
 * Behind the calls: of each rank the stretch behind its first difference.
 * @param {Context} context
 * @param {View} view
 * @param {Side} side
 * @param {Palette} palette
 */
export function drawSpread(context, view, side, palette) {
  for (const [row, at] of side.spread) {
    const lane = view.laneOf(row);
    if (!lane) continue;
    const x = Math.max(-4, view.x(at));
    context.fillStyle = thin(palette.warning, 0.2);
    context.fillRect(x, lane.y - 4, view.width - x, lane.height + 8);
  }
}

/**
 * Before the calls: what takes another message, what the other run does not have, and where each rank differs first.
 * @param {Context} context
 * @param {View} view
 * @param {Side} side
 * @param {Palette} palette
 */
export function drawDiffer(context, view, side, palette) {
  for (const [, , row, start, end] of side.only) outline(context, view, row, start, end, palette.warning, 1.5);
  context.setLineDash(DASHES);
  for (const [, , row, start, end] of side.held) outline(context, view, row, start, end, palette.error, 1.5);
  context.setLineDash([]);
  for (const message of side.messages) {
    if (!message.to || view.merged(message.from[0], message.to[0])) continue;
    const [from, to] = [message.from, message.to];
    const changed = side.taken.has(String(message.post)) || side.taken.has(String(message.receive));
    const held = [message.send, message.post, message.receive].some((call) => side.other.has(String(call)));
    context.setLineDash(held && !changed ? DASHES : []);
    arrow(context, view.x(from[1]), view.rowY(from[0]), view.x(to[1]), view.rowY(to[0]), {
      colour: changed || held ? palette.error : thin(palette.warning, 0.8),
      width: changed ? 2.4 : 1.4,
      head: changed ? 9 : 6,
    });
  }
  context.setLineDash([]);
  for (const [, , row, start, end] of side.changed) outline(context, view, row, start, end, palette.error);
  context.fillStyle = palette.error;
  for (const [row, at] of side.spread) {
    const lane = view.laneOf(row);
    if (lane) context.fillRect(view.x(at) - 1, lane.y - 4, 2, lane.height + 8);
  }
}
