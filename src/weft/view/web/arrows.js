// What goes from row to row: messages, collectives, who waits for whom, and messages that end in the air.

import { colours, thin } from "weft/theme.js";

const HUES = ["collective", "one-sided", "io", "note", "receive", "probe"];

/** Collectives as bands over their members, a colour a communicator. */
export function drawBands(context, view, bands, strong) {
  for (const band of bands) {
    const colour = colours()[HUES[Math.max(0, band.comm_index) % HUES.length]];
    const parts = corners(view, band);
    if (parts.length < 2) continue;
    context.beginPath();
    parts.forEach(([y, x], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    for (const [y, , x] of [...parts].reverse()) context.lineTo(Math.min(x, view.torn()), y);
    context.closePath();
    context.fillStyle = thin(colour, strong ? 0.3 : 0.13);
    context.fill();
    context.lineWidth = strong ? 1.5 : 1;
    context.strokeStyle = thin(colour, strong ? 0.95 : 0.5);
    for (const side of [1, 2]) {
      context.beginPath();
      parts.forEach((part, i) => (i ? context.lineTo(Math.min(part[side], view.torn()), part[0]) : context.moveTo(Math.min(part[side], view.torn()), part[0])));
      context.stroke();
    }
  }
}

/** Heights and ends of a band's parts from top to bottom; those of a merged lane are one, with the last to come. */
function corners(view, band) {
  const lanes = new Map();
  for (const [row, start, end] of band.parts) {
    const y = view.rowY(row);
    const [, x1, x2] = lanes.get(y) ?? [y, -Infinity, -Infinity];
    lanes.set(y, [y, Math.max(x1, view.x(start)), Math.max(x2, view.x(end))]);
  }
  return [...lanes.values()].sort((a, b) => a[0] - b[0]);
}

export function drawMessages(context, view, messages, strong) {
  const palette = colours();
  const opacity = strong ? 1 : messages.length > 150 ? 0.35 : 0.7;
  for (const message of messages) {
    // Who stands in a receive that never returned is told by its torn box and its arrow of waiting.
    if (message.kind === "unmatched-receive" && view.isOpen(message.event)) continue;
    if (message.to && view.merged(message.from[0], message.to[0])) continue;
    if (!message.to) { drawStub(context, view, message, strong); continue; }
    const late = message.ns !== undefined;
    const colour = strong ? palette.accent : late ? palette.wait : thin(palette.message, opacity);
    arrow(context, view.x(message.from[1]), view.rowY(message.from[0]), view.x(message.to[1]), view.rowY(message.to[0]),
      { colour, width: strong ? 2.5 : late ? 1.8 : 1.3, head: strong ? 9 : messages.length > 150 ? 5 : 7 });
  }
}

function arrow(context, x1, y1, x2, y2, { colour, width, dash = [], head = 6 }) {
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

function point(context, x, y, angle, size) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size * Math.cos(angle - 0.45), y - size * Math.sin(angle - 0.45));
  context.lineTo(x - size * Math.cos(angle + 0.45), y - size * Math.sin(angle + 0.45));
  context.closePath();
  context.fill();
}

/** A message that ends in the air, on the way to the one who never took it, or comes out of it. */
function drawStub(context, view, message, strong) {
  if (message.silent) return; // the message that missed it is drawn and says so
  const colour = colours().error;
  const sent = message.kind === "unmatched-send";
  const y = view.rowY(message.from[0]);
  const toward = message.toward === null ? y - 30 : view.rowY(message.toward);
  const distance = Math.sign(toward - y || -1) * Math.min(Math.max(14, Math.abs(toward - y) * 0.5), 60);
  const x = view.x(message.from[1]);
  const [x2, y2] = [x + Math.min(26, Math.abs(distance)), y + distance];
  context.strokeStyle = colour;
  context.lineWidth = strong ? 2.5 : 1.8;
  context.setLineDash([5, 3]);
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x2, y2);
  context.stroke();
  context.setLineDash([]);
  if (!sent) point(context, x, y, Math.atan2(y - y2, x - x2), 6);
  cross(context, x2, y2, colour);
  const tag = message.tag === -1 ? "any tag" : `tag ${message.tag}`;
  const text = message.near ?? (sent ? `${tag}: nobody receives it` : `${tag}: nobody sends it`);
  // The arrows of who waits for whom stand at the torn edge: words make room for them.
  const room = view.measure(context, text) * 1.12;
  const crowded = x2 + room > view.torn() - 110 && x2 - room > 16;
  note(context, view, crowded ? x2 - room - 14 : x2 + 9, y2, text, colour);
}

function cross(context, x, y, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.moveTo(x - 4, y - 4); context.lineTo(x + 4, y + 4);
  context.moveTo(x + 4, y - 4); context.lineTo(x - 4, y + 4);
  context.stroke();
}

/** A few words on a ground of their own, inside the picture, where none were drawn yet. */
export function note(context, view, x, y, text, colour) {
  context.font = "600 11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  const width = context.measureText(text).width;
  const left = Math.max(4, Math.min(x, view.width - width - 8));
  const box = { left: left - 3, top: y - 8, right: left + width + 4, bottom: y + 8 };
  if (view.notes.some((o) => o.left < box.right && box.left < o.right && o.top < box.bottom && box.top < o.bottom)) return;
  view.notes.push(box);
  context.fillStyle = thin(colours().paper, 0.9);
  context.beginPath();
  context.roundRect(box.left, box.top, box.right - box.left, 16, 4);
  context.fill();
  context.fillStyle = colour;
  context.fillText(text, left, y + 0.5);
}

/** What the chosen finding draws: waiting ranks, cycles, the message taken and those that could have been. */
export function drawFinding(context, view, finding) {
  const palette = colours();
  const waits = finding.arrows.filter((a) => a.kind === "waits");
  const starts = new Map(finding.events.map(([rank, , , start]) => [rank, view.x(start)]));
  waits.forEach((a, i) => drawWait(context, view, a, i, { all: waits.length, from: Math.max(starts.get(a.rank) ?? 0, starts.get(a.for) ?? 0) }));
  const ring = waits.filter((a) => a.cycle);
  if (ring.length === 2 && Math.abs(view.rankY(ring[0].rank) - view.rankY(ring[0].for)) > 40) {
    note(context, view, view.torn() - 81, (view.rankY(ring[0].rank) + view.rankY(ring[0].for)) / 2, "cycle", palette.error);
  }
  for (const a of finding.arrows.filter((one) => one.kind !== "waits")) {
    const took = a.kind === "took";
    const colour = took ? palette.accent : palette.error;
    arrow(context, view.x(a.from[1]), view.rowY(a.from[0]), view.x(a.to[1]), view.rowY(a.to[0]),
      { colour, width: 2.2, dash: took ? [] : [7, 4], head: 8 });
  }
  outlineAll(context, view, finding, new Set(waits.filter((a) => a.cycle).map((a) => a.rank)));
  for (const a of finding.arrows.filter((one) => one.kind !== "waits")) {
    const took = a.kind === "took";
    note(context, view, view.x(a.from[1]) + 8, view.rowY(a.from[0]) - 14, took ? "taken" : "could have come first", took ? palette.accent : palette.error);
  }
}

/** The calls of a finding: those of a cycle boldly, a crowd of others thinly, those of a merged lane as one. */
function outlineAll(context, view, finding, cycle) {
  const colour = colours().error;
  const merged = new Map();
  for (const [i, [rank, , row, start, end]] of finding.events.entries()) {
    const lane = view.laneOf(row);
    if (!lane) continue;
    if (lane.rows.length > 1) {
      const [first, last] = merged.get(lane) ?? [Infinity, -Infinity];
      merged.set(lane, [Math.min(start, first), Math.max(end, last)]);
    }
    if (lane.rows.length > 1) continue;
    if ((i < finding.first && finding.events.length <= 12) || i < Math.min(4, finding.first) || cycle.has(rank)) outline(context, view, row, start, end, colour);
    else outline(context, view, row, start, end, thin(colour, 0.6), 1);
  }
  for (const [lane, [start, end]] of merged) {
    const left = Math.max(0, view.x(start));
    const right = Math.min(view.x(end), view.torn());
    context.fillStyle = colour;
    if (left < view.width && right > 0) context.fillRect(left, lane.y + lane.height, Math.max(3, right - left), 2);
  }
}

function drawWait(context, view, wait, i, { all, from: earliest }) {
  const from = view.rankY(wait.rank);
  const to = view.rankY(wait.for);
  if (from === null || to === null || from === to) return;
  const colour = wait.cycle ? colours().error : colours().warning;
  // The two arcs of a pair that wait for each other make a ring; all others stand side by side.
  const wanted = wait.cycle ? view.torn() - 62 : view.torn() - 108 - (((i % 5) * 30) % Math.max(30, view.width * 0.3));
  // An arrow stands where both calls are under way.
  const x = Math.min(Math.max(wanted, earliest + 16), view.torn() - 24) + (wait.cycle ? Math.sign(from - to) * 11 : 0);
  const bulge = Math.min(54, 16 + Math.abs(to - from) * 0.28) * (to > from ? 1 : -1);
  for (const [stroke, width] of [[colours().paper, 6], [colour, wait.cycle ? 3 : 2]]) {
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x, from);
    context.bezierCurveTo(x - bulge, from + (to - from) * 0.1, x - bulge, to - (to - from) * 0.1, x, to);
    context.stroke();
  }
  context.fillStyle = colours().paper;
  context.beginPath();
  context.arc(x, from, 6, 0, 7);
  context.fill();
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, from, 4, 0, 7);
  context.fill();
  point(context, x + Math.sign(bulge) * 2, to, Math.atan2((to - from) * 0.1, bulge), 12);
  if (all <= 12 && !wait.cycle) note(context, view, x - bulge * 0.78 + (bulge > 0 ? -96 : 8), (from + to) / 2, wait.ranks > 1 ? `${wait.ranks} ranks wait for ${wait.for}` : `${wait.rank} waits for ${wait.for}`, colour);
}

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

/** The past and future of the chosen call: what lies in neither could be at any time. */
export function drawAround(context, view, around) {
  const palette = colours();
  view.run.rows.forEach((_, row) => {
    const lane = view.laneOf(row);
    if (!lane) return;
    const past = around.past[row];
    const future = around.future[row];
    if (past !== null) shade(context, view, lane, 0, view.x(past), palette.past);
    if (future !== null) shade(context, view, lane, view.x(future), view.width, palette.future);
  });
}

function shade(context, view, lane, from, to, colour) {
  const left = Math.max(0, from);
  const right = Math.min(view.width, to);
  if (right <= left) return;
  context.fillStyle = thin(colour, 0.2);
  context.fillRect(left, lane.y - 2, right - left, lane.height + 4);
  context.fillStyle = colour;
  const edge = colour === colours().past ? to : from;
  if (edge > 0 && edge < view.width) context.fillRect(edge - 1, lane.y - 3, 2, lane.height + 6);
}

