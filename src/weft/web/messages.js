// Messages: arrows from send to delivery, and those that end in the air. Each can be pointed at.

import { arrow, note, outline, stub } from "weft/shapes.js";
import { colours, thin } from "weft/theme.js";

/** @import { Context, Drawn, Line, View } from "weft/drawn" */
/** @import { Arrow, Message, MessageFacts, Side, Stub } from "weft/sent" */

const MANY = 150; // messages from which arrows are drawn thinly
const NOTABLE = 0.02; // of the window that somebody waited for a message

/**
 * @param {{ kind?: string }} message
 * @returns {Side}
 */
export const sideOf = (message) => (message.kind === "unmatched-receive" ? "receive" : "send");

/**
 * @param {Context} context
 * @param {View} view
 * @param {Message[]} messages
 * @param {boolean | "chosen"} strong
 */
export function drawMessages(context, view, messages, strong) {
  for (const message of messages) {
    // Who stands in a receive that never returned is told by its torn box and its arrow of waiting.
    if (message.kind === "unmatched-receive" && view.isOpen(message.event) && strong !== "chosen") continue;
    if (message.to && view.merged(message.from[0], message.to[0])) continue;
    if (message.to) drawOne(context, view, message, strong, messages.length > MANY);
    else drawStub(context, view, message, strong);
  }
}

/**
 * @param {Context} context
 * @param {View} view
 * @param {Arrow} message
 * @param {boolean | "chosen"} strong
 * @param {boolean} many
 */
function drawOne(context, view, message, strong, many) {
  const palette = colours();
  const dim = message.fits === false && !strong;
  const { ns = 0, worst } = message;
  const late = ns > view.wide * NOTABLE || (ns && worst);
  const colour = strong ? palette.accent : late ? palette.late : thin(palette.message, many ? 0.35 : 0.7);
  /** @type {Line} */
  const line = [view.x(message.from[1]), view.rowY(message.from[0]), view.x(message.to[1]), view.rowY(message.to[0])];
  context.globalAlpha = dim ? 0.13 : 1;
  if (strong) arrow(context, ...line, { colour: palette.paper, width: 6, head: 12 });
  arrow(context, ...line, { colour, width: strong ? 3 : late ? 1.8 : 1.3, head: strong ? 10 : many ? 5 : 7 });
  context.globalAlpha = 1;
  view.lines.push({ message, line });
}

/**
 * A message that ends in the air, on the way to the one who never took it, or comes out of it.
 * @param {Context} context
 * @param {View} view
 * @param {Stub} message
 * @param {boolean | "chosen"} strong
 */
function drawStub(context, view, message, strong) {
  if (message.silent && !strong) return; // the message that missed it is drawn and says so
  const palette = colours();
  const sent = message.kind === "unmatched-send";
  const y = view.rowY(message.from[0]);
  const toward = message.toward === null ? y - 30 : view.rowY(message.toward);
  const distance = Math.sign(toward - y || -1) * Math.min(Math.max(14, Math.abs(toward - y) * 0.5), 60);
  const x = view.x(message.from[1]);
  const [x2, y2] = [x + Math.min(26, Math.abs(distance)), y + distance];
  context.globalAlpha = message.fits === false && !strong ? 0.13 : 1;
  stub(context, [x, y], [x2, y2], { colour: strong ? palette.accent : palette.error, width: strong ? 3 : 1.8, sent });
  context.globalAlpha = 1;
  view.lines.push({ message, line: [x, y, x2, y2] });
  if (message.fits === false) return;
  const tag = message.tag === -1 ? "any tag" : `tag ${message.tag}`;
  const text = message.near ?? (sent ? `${tag}: nobody receives it` : `${tag}: nobody sends it`);
  // The arrows of who waits for whom stand at the torn edge: words make room for them.
  const room = view.measure(context, text) * 1.12;
  const crowded = x2 + room > view.torn() - 110 && x2 - room > 16;
  note(context, view, crowded ? x2 - room - 14 : x2 + 9, y2, text, palette.error);
}

/**
 * The chosen message: its arrow, and the calls at both its ends.
 * @param {Context} context
 * @param {View} view
 * @param {MessageFacts} chosen
 */
export function drawChosenMessage(context, view, chosen) {
  for (const [row, start, end] of chosen.places) outline(context, view, row, start, end, colours().accent);
  drawMessages(context, view, [chosen.arrow], "chosen");
}

/**
 * The message whose line passes a place within some pixels: the nearest one, null for none.
 * @param {Drawn[]} lines
 * @param {number} x
 * @param {number} y
 * @param {number} reach
 * @returns {Message | null}
 */
export function messageAt(lines, x, y, reach) {
  /** @type {Message | null} */
  let best = null;
  let least = reach;
  for (const { message, line } of lines) {
    const [x1, y1, x2, y2] = line;
    const long = (x2 - x1) ** 2 + (y2 - y1) ** 2;
    const t = long ? Math.max(0, Math.min(1, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / long)) : 0;
    const far = Math.hypot(x - x1 - t * (x2 - x1), y - y1 - t * (y2 - y1));
    if (far < least) {
      least = far;
      best = message;
    }
  }
  return best;
}
