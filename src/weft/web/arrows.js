// What goes from row to row besides messages: collectives, who waits for whom, races, past and future.

import { arc, arrow, note, outline } from "weft/shapes.js";
import { colours, thin } from "weft/theme.js";

/** @import { Context, Lane, View } from "weft/drawn" */
/** @import { Around, Band, Finding, Wait } from "weft/sent" */

const HUES = ["collective", "one-sided", "io", "note", "receive", "probe"];

/**
 * Collectives as bands over their members, a colour a communicator.
 * @param {Context} context
 * @param {View} view
 * @param {Band[]} bands
 * @param {boolean} strong
 */
export function drawBands(context, view, bands, strong) {
  for (const band of bands) {
    const colour = colours()[HUES[Math.max(0, band.comm_index) % HUES.length]];
    const parts = corners(view, band);
    if (parts.length < 2) continue;
    context.globalAlpha = band.fits === false && !strong ? 0.2 : 1;
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
      parts.forEach((part, i) =>
        i
          ? context.lineTo(Math.min(part[side], view.torn()), part[0])
          : context.moveTo(Math.min(part[side], view.torn()), part[0]),
      );
      context.stroke();
    }
    context.globalAlpha = 1;
  }
}

/**
 * Heights and ends of a band's parts from top to bottom; those of a merged lane are one, with the last to come.
 * @param {View} view
 * @param {Band} band
 */
function corners(view, band) {
  /** @type {Map<number, [y: number, x1: number, x2: number]>} */
  const lanes = new Map();
  for (const [row, start, end] of band.parts) {
    const y = view.rowY(row);
    const [, x1, x2] = lanes.get(y) ?? [y, -Infinity, -Infinity];
    lanes.set(y, [y, Math.max(x1, view.x(start)), Math.max(x2, view.x(end))]);
  }
  return [...lanes.values()].sort((a, b) => a[0] - b[0]);
}

/**
 * What the chosen finding draws: waiting ranks, cycles, the message taken and those that could have been.
 * @param {Context} context
 * @param {View} view
 * @param {Finding} finding
 */
export function drawFinding(context, view, finding) {
  const palette = colours();
  const waits = finding.arrows.filter((a) => a.kind === "waits");
  const starts = new Map(finding.events.map(([rank, , , start]) => [rank, view.x(start)]));
  waits.forEach((a, i) =>
    drawWait(context, view, a, i, {
      all: waits.length,
      from: Math.max(starts.get(a.rank) ?? 0, starts.get(a.for) ?? 0),
    }),
  );
  const ring = waits.filter((a) => a.cycle);
  const [a, b] = ring.length === 2 ? [view.rankY(ring[0].rank), view.rankY(ring[0].for)] : [null, null];
  if (a !== null && b !== null && Math.abs(a - b) > 40)
    note(context, view, view.torn() - 81, (a + b) / 2, "cycle", palette.error);
  for (const a of finding.arrows.filter((one) => one.kind !== "waits")) {
    const took = a.kind === "took";
    const colour = took ? palette.accent : palette.error;
    arrow(context, view.x(a.from[1]), view.rowY(a.from[0]), view.x(a.to[1]), view.rowY(a.to[0]), {
      colour,
      width: 2.2,
      dash: took ? [] : [7, 4],
      head: 8,
    });
  }
  outlineAll(context, view, finding, new Set(waits.filter((a) => a.cycle).map((a) => a.rank)));
  for (const a of finding.arrows.filter((one) => one.kind !== "waits")) {
    const took = a.kind === "took";
    note(
      context,
      view,
      view.x(a.from[1]) + 8,
      view.rowY(a.from[0]) - 14,
      took ? "taken" : "could have come first",
      took ? palette.accent : palette.error,
    );
  }
}

/**
 * How far an arc has gone aside, as a share of its most, where it has gone a share of its way down.
 * @param {number} share
 */
function aside(share) {
  let t = 0;
  while (t < 1 && 3 * (1 - t) ** 2 * t * 0.1 + 3 * (1 - t) * t * t * 0.9 + t ** 3 < share) t += 0.02;
  return 4 * t * (1 - t);
}

/**
 * The calls of a finding: those of a cycle boldly, a crowd of others thinly, those of a merged lane as one.
 * @param {Context} context
 * @param {View} view
 * @param {Finding} finding
 * @param {Set<number>} cycle
 */
function outlineAll(context, view, finding, cycle) {
  const colour = colours().error;
  /** @type {Map<Lane, [start: number, end: number]>} */
  const merged = new Map();
  for (const [i, [rank, , row, start, end]] of finding.events.entries()) {
    const lane = view.laneOf(row);
    if (!lane) continue;
    if (lane.rows.length > 1) {
      const [first, last] = merged.get(lane) ?? [Infinity, -Infinity];
      merged.set(lane, [Math.min(start, first), Math.max(end, last)]);
    }
    if (lane.rows.length > 1) continue;
    if ((i < finding.first && finding.events.length <= 12) || i < Math.min(4, finding.first) || cycle.has(rank))
      outline(context, view, row, start, end, colour);
    else outline(context, view, row, start, end, thin(colour, 0.6), 1);
  }
  for (const [lane, [start, end]] of merged) {
    const left = Math.max(0, view.x(start));
    const right = Math.min(view.x(end), view.torn());
    context.fillStyle = colour;
    if (left < view.width && right > 0) context.fillRect(left, lane.y + lane.height, Math.max(3, right - left), 2);
  }
}

/**
 * @param {Context} context
 * @param {View} view
 * @param {Wait} wait
 * @param {number} i
 * @param {{ all: number, from: number }} among
 */
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
  arc(context, x, from, to, { colour, ground: colours().paper, width: wait.cycle ? 3 : 2, bulge });
  if (all > 12 || wait.cycle) return;
  // The words stand between two rows, beside the arc, where they cover no call.
  const y =
    Math.abs(to - from) > view.pitch * 1.5 && view.pitch > 36
      ? from + (Math.sign(to - from) * view.pitch) / 2
      : (from + to) / 2;
  const text = wait.ranks > 1 ? `${wait.ranks} ranks wait for ${wait.for}` : `${wait.rank} waits for ${wait.for}`;
  const side = x - bulge * 0.78 * aside((y - from) / (to - from));
  note(context, view, bulge > 0 ? side - view.measure(context, text) * 1.12 - 8 : side + 8, y, text, colour);
}

/**
 * The past and future of the chosen call: what lies in neither could be at any time.
 * @param {Context} context
 * @param {View} view
 * @param {Around} around
 */
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

/**
 * @param {Context} context
 * @param {View} view
 * @param {Lane} lane
 * @param {number} from
 * @param {number} to
 * @param {string} colour
 */
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
