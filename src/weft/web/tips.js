// What stands beside the pointer: at once what the picture knows, and a moment later what the record says.

import { byId, shown } from "weft/dom.js";
import { sideOf } from "weft/messages.js";
import { taskName } from "weft/names.js";
import { bytes, count, duration } from "weft/units.js";

/** @import { Hit, Lane } from "weft/drawn" */
/** @import { Boxes, Message } from "weft/sent" */
/** @import { Graph } from "weft/graph.js" */

/** @typedef {(string | null)[]} Lines */
/** @typedef {{ key: string, lines: Lines, ask?: () => Promise<Lines> }} Told what a place is, and how more is learned of it */

const PAUSE = 70; // ms that the pointer rests before the record is asked
const KEPT = 400;

/** @type {Map<string, Lines>} */
const known = new Map();
let timer = 0;
let current = "";

export function hideTip() {
  byId("tip").hidden = true;
  clearTimeout(timer);
  current = "";
}

/**
 * Shows what lies under the pointer; `message` goes before what `hit` names.
 * @param {Graph} graph
 * @param {PointerEvent} event
 * @param {Hit} hit
 * @param {Message | null} message
 */
export function showTip(graph, event, hit, message) {
  const { key, lines, ask } = message ? ofMessage(graph, message) : ofPlace(graph, hit);
  clearTimeout(timer);
  current = key;
  put([...lines, ...(known.get(key) ?? [])], event);
  if (!ask || known.has(key)) return;
  timer = setTimeout(async () => {
    const more = await ask().catch(() => []);
    if (known.size > KEPT) known.clear();
    known.set(key, more);
    if (current === key) put([...lines, ...more], event);
  }, PAUSE);
}

/**
 * @param {Lines} lines
 * @param {PointerEvent} event
 */
function put(lines, event) {
  const tip = byId("tip");
  tip.hidden = !lines.length;
  if (!lines.length) return;
  tip.textContent = shown(lines.filter(Boolean).join("\n"));
  const [w, h] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 6))}px`;
  tip.style.top = `${event.clientY + 18 + h > innerHeight ? Math.max(4, event.clientY - h - 10) : event.clientY + 18}px`;
}

/** @param {...(string | null | undefined)} parts */
const dotted = (...parts) => parts.filter((part) => part !== null && part !== undefined && part !== "").join(" · ");
/** @param {number | null | undefined} size */
const sized = (size) =>
  size === null || size === undefined ? null : size < 1000 ? `${count(size)} bytes` : bytes(size);
/** @param {number} rank */
const named = (rank) => taskName(rank) && ` (${taskName(rank)})`;
/** @param {number} tag */
export const tagged = (tag) => (tag === -1 ? "any tag" : `tag ${tag}`);

/**
 * @param {Graph} graph
 * @param {Message} message
 * @returns {Told}
 */
function ofMessage(graph, message) {
  const key = `message ${sideOf(message)} ${message.row}`;
  /** @param {number} row */
  const name = (row) => `rank ${graph.run.rows[row][0]}${named(graph.run.rows[row][1])}`;
  const from = message.to
    ? `Message from ${name(message.from[0])} to ${name(message.to[0])}`
    : message.kind === "unmatched-send"
      ? `Message of ${name(message.from[0])} that nobody receives`
      : `Receive of ${name(message.from[0])} to which nobody sends`;
  return {
    key,
    lines: [from, tagged(message.tag)],
    ask: async () => {
      const facts = await graph.api.message(graph.state.axis, sideOf(message), message.row);
      return [
        dotted(
          sized(facts.bytes),
          facts.latency_ns === null ? null : `${duration(facts.latency_ns)} from send to delivery`,
        ),
        ...facts.why,
      ];
    },
  };
}

/**
 * @param {Graph} graph
 * @param {Hit} hit
 * @returns {Told}
 */
function ofPlace(graph, hit) {
  if (hit.kind === "head")
    return { key: "", lines: [hit.item.name, hit.item.folded ? "click to unfold" : "click to fold"] };
  if (hit.kind === "label" && hit.item) return { key: "", lines: ofLabel(graph, hit.item) };
  if (hit.kind !== "lane" || !hit.item) return { key: "", lines: [] };
  const i = graph.boxAt(hit);
  if (i >= 0 && graph.part?.data.start) return ofBox(graph, graph.part.data, i, hit.item);
  const shares = graph.sharesAt(hit);
  return {
    key: "",
    lines: shares.length
      ? [
          whose(graph, hit.item),
          shares.map(({ name, share }) => `${name} ${share < 0.01 ? "<1" : Math.round(share * 100)} %`).join(", "),
        ]
      : [],
  };
}

/**
 * @param {Graph} graph
 * @param {Lane} item
 */
const whose = (graph, item) =>
  item.rows.length > 1
    ? `ranks ${graph.lanes.label(item.rows, "")}`
    : `rank ${item.label}${named(graph.run.rows[item.rows[0]][1])}`;

/**
 * @param {Graph} graph
 * @param {Lane} item
 */
function ofLabel(graph, item) {
  const ends = (graph.axis.ends ?? []).filter((end) => item.rows.includes(end.row));
  return [
    whose(graph, item),
    ...ends.slice(0, 4).map((end) => (item.rows.length > 1 ? `rank ${end.rank} ${end.label}` : end.label)),
  ];
}

/**
 * @param {Graph} graph
 * @param {Boxes} data
 * @param {number} i
 * @param {Lane} lane
 * @returns {Told}
 */
function ofBox(graph, data, i, lane) {
  const rank = graph.run.rows[lane.rows[0]][1];
  const event = data.event[i];
  const [name] = graph.run.functions[data.function[i]] ?? ["?"];
  const long = !(data.flags[i] & 1)
    ? "never returned"
    : graph.state.axis === "logical"
      ? ""
      : duration(graph.realTime(data.end[i]) - graph.realTime(data.start[i]));
  return {
    key: `call ${rank} ${event}`,
    lines: [dotted(name, long), `rank ${lane.label}${named(rank)}, call ${event}`],
    ask: async () => {
      const facts = await graph.api.tip(rank, event);
      return [
        dotted(facts.peer, facts.tag === null ? null : `tag ${facts.tag}`, sized(facts.bytes)),
        facts.method ? `part of ${facts.method}()` : null,
        facts.site === "?" ? null : facts.site,
      ];
    },
  };
}
