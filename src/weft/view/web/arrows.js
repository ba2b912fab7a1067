// What goes from row to row: messages, collectives, who waits for whom, and messages that end in the air.

import { colours, thin } from "weft/theme.js";

const HUES = ["collective", "one-sided", "file", "note", "receive", "poll"];

/** Collectives as bands over their members, a colour a communicator. */
export function drawBands(context, view, bands, strong) {
  for (const band of bands) {
    const colour = colours()[HUES[Math.max(0, band.comm_index) % HUES.length]];
    const parts = band.parts.map(([row, start, end]) => [view.rowY(row), view.x(start), view.x(end)]).sort((a, b) => a[0] - b[0]);
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

export function drawMessages(context, view, messages, strong) {
  const palette = colours();
  const opacity = strong ? 1 : messages.length > 150 ? 0.35 : 0.7;
  for (const message of messages) {
    if (!message.to) { drawStub(context, view, message, strong); continue; }
    const late = message.ns !== undefined;
    const colour = strong ? palette.accent : late ? palette.wait : thin(palette.message, opacity);
    arrow(context, view.x(message.from[1]), view.rowY(message.from[0]), view.x(message.to[1]), view.rowY(message.to[0]),
      { colour, width: strong ? 2.5 : late ? 1.8 : 1.1 });
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
  const colour = colours().error;
  const sent = message.kind === "unmatched-send";
  const y = view.rowY(message.from[0]);
  const toward = message.toward === null ? y - 30 : view.rowY(message.toward);
  const distance = Math.sign(toward - y || -1) * Math.min(Math.max(14, Math.abs(toward - y) * 0.55), 70);
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
  note(context, view, x2 + 7, y2, message.near ?? (sent ? `${tag}: nobody receives it` : `${tag}: nobody sends it`), colour);
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
  waits.forEach((a, i) => drawWait(context, view, a, i, waits.length));
  for (const a of finding.arrows.filter((one) => one.kind !== "waits")) {
    const took = a.kind === "took";
    const colour = took ? palette.accent : palette.error;
    arrow(context, view.x(a.from[1]), view.rowY(a.from[0]), view.x(a.to[1]), view.rowY(a.to[0]),
      { colour, width: 2.2, dash: took ? [] : [7, 4], head: 8 });
  }
  for (const [, , row, start, end] of finding.events) outline(context, view, row, start, end, palette.error);
  for (const a of finding.arrows.filter((one) => one.kind !== "waits")) {
    const took = a.kind === "took";
    note(context, view, view.x(a.from[1]) + 8, view.rowY(a.from[0]) - 14, took ? "taken" : "could have come first", took ? palette.accent : palette.error);
  }
}

function drawWait(context, view, wait, i, all) {
  const from = view.rankY(wait.rank);
  const to = view.rankY(wait.for);
  if (from === null || to === null || from === to) return;
  const colour = wait.cycle ? colours().error : colours().warning;
  const edge = view.torn() - 16;
  const x = edge - (all > 1 ? ((i % 6) * 34) % Math.max(34, view.width * 0.25) : 0);
  const bulge = Math.min(70, 18 + Math.abs(to - from) * 0.25) * (to > from ? 1 : -1);
  for (const [stroke, width] of [[colours().paper, 5.5], [colour, wait.cycle ? 2.6 : 1.8]]) {
    context.strokeStyle = stroke;
    context.lineWidth = width;
    context.beginPath();
    context.moveTo(x, from);
    context.bezierCurveTo(x - bulge, from, x - bulge, to, x, to);
    context.stroke();
  }
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, from, 3.5, 0, 7);
  context.fill();
  point(context, x + 1, to, bulge > 0 ? 0 : Math.PI, 10);
  if (all <= 12) note(context, view, x - bulge * 0.75 + 6, (from + to) / 2, `${view.rankName(wait.rank)} waits for ${wait.for}`, colour);
}

export function outline(context, view, row, start, end, colour) {
  const lane = view.laneOf(row);
  if (!lane) return;
  const left = Math.max(-4, view.x(start) - 1.5);
  const right = Math.min(view.x(end), view.torn()) + 1.5;
  if (right < 0 || left > view.width) return;
  const height = lane.rows.length === 1 ? lane.height : 6;
  const top = lane.rows.length === 1 ? lane.y : view.rowY(row) - 3;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.roundRect(left, top - 1.5, Math.max(4, right - left), height + 3, 4);
  context.stroke();
}

/** The past and future of the chosen call: what lies in neither could be at any time. */
export function drawAround(context, view, around) {
  const palette = colours();
  view.run.rows.forEach((_, row) => {
    const lane = view.laneOf(row);
    if (!lane || lane.rows.length > 1) return;
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

