// Mouse, pen and fingers on the graph: click, drag, wheel, pinch, hover.

import { Graph } from "weft/graph.js";
import { hideTip, showTip } from "weft/tips.js";

/** @import { Hit } from "weft/drawn" */
/** @import { Page } from "weft/main.js" */

/** @typedef {Map<number, [x: number, y: number]>} Fingers by pointer where it is */
/**
 * @typedef {{ x: number, y: number, from: number, to: number, scroll: number, hit: Hit, moved: boolean, shift: boolean }}
 *   Down where a button was pressed, and what was shown then
 */

const STILL = 4; // pixels that a click may move
const STILL_FINGER = 10;
const REACH = 6; // pixels from a message at which it is meant
const REACH_FINGER = 14;

/**
 * @param {Graph} graph
 * @param {Page} actions
 */
export function listen(graph, actions) {
  const { canvas } = graph;
  /** @type {Fingers} */
  const fingers = new Map();
  /** @type {Down | null} */
  let down = null;
  /** @type {{ a: number, b: number } | null} */
  let pinch = null;
  /**
   * @param {MouseEvent} event
   * @returns {[x: number, y: number]}
   */
  const place = (event) => [event.offsetX, event.offsetY];
  /** @param {PointerEvent} event */
  const isFinger = (event) => event.pointerType === "touch";

  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    fingers.set(event.pointerId, [x, y]);
    canvas.setPointerCapture(event.pointerId);
    hideTip();
    if (fingers.size === 2) {
      down = null;
      pinch = pinched(graph, fingers);
      graph.state.remember();
      return;
    }
    down = {
      x,
      y,
      from: graph.state.from,
      to: graph.state.to,
      scroll: graph.scroll,
      hit: graph.hit(x, y),
      moved: false,
      shift: event.shiftKey,
    };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, [x, y]);
    if (pinch) {
      spread(graph, pinch, fingers, actions);
      return;
    }
    graph.hover = x - Graph.gutter;
    if (!down) {
      hovered(graph, event, x, y);
      return;
    }
    if (!down.moved && Math.hypot(x - down.x, y - down.y) < (isFinger(event) ? STILL_FINGER : STILL)) return;
    if (!down.moved) {
      down.moved = true;
      if (down.hit.kind === "lane" && !down.shift) graph.state.remember();
    }
    drag(graph, down, x, y, actions);
  });
  /** @param {PointerEvent} event */
  const lifted = (event) => {
    fingers.delete(event.pointerId);
    if (pinch) {
      if (!fingers.size) pinch = null;
      return;
    }
    if (!down) return;
    const { hit, moved, shift } = down;
    down = null;
    if (event.type === "pointercancel") return;
    if (!moved) actions.click(hit, graph.messageAt(hit, isFinger(event) ? REACH_FINGER : REACH));
    else if (hit.kind === "ruler") {
      if (graph.measure) actions.zoomTo(...sorted(graph.measure));
      graph.measure = null;
    } else if (shift) graph.draw();
  };
  canvas.addEventListener("pointerup", lifted);
  canvas.addEventListener("pointercancel", lifted);
  canvas.addEventListener("pointerleave", () => {
    graph.hover = null;
    hideTip();
    graph.draw();
  });
  canvas.addEventListener("dblclick", (event) => {
    const hit = graph.hit(...place(event));
    if (hit.kind === "lane") actions.open(hit);
  });
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      hideTip();
      wheel(graph, event, actions);
    },
    { passive: false },
  );
}

/**
 * @param {[from: number, to: number]} pair
 * @returns {[from: number, to: number]}
 */
const sorted = ([a, b]) => (a < b ? [a, b] : [b, a]);

/**
 * @param {Graph} graph
 * @param {PointerEvent} event
 * @param {number} x
 * @param {number} y
 */
function hovered(graph, event, x, y) {
  const hit = graph.hit(x, y);
  const message = graph.messageAt(hit, REACH);
  graph.canvas.style.cursor =
    message || (hit.kind === "lane" && hit.item) || hit.kind === "head"
      ? "pointer"
      : hit.kind === "ruler"
        ? "ew-resize"
        : "default";
  showTip(graph, event, hit, message);
  graph.draw();
}

/**
 * Where two fingers are when they begin to pinch: what of the run is under each.
 * @param {Graph} graph
 * @param {Fingers} fingers
 */
function pinched(graph, fingers) {
  const [a, b] = [...fingers.values()];
  return { a: graph.time(a[0] - Graph.gutter), b: graph.time(b[0] - Graph.gutter) };
}

/**
 * Keeps what was under two fingers under them.
 * @param {Graph} graph
 * @param {{ a: number, b: number }} pinch
 * @param {Fingers} fingers
 * @param {Page} actions
 */
function spread(graph, pinch, fingers, actions) {
  if (fingers.size !== 2) return;
  const [a, b] = [...fingers.values()].map(([x]) => x - Graph.gutter);
  if (Math.abs(a - b) < 12 || (pinch.b - pinch.a) / (b - a) <= 0) return;
  const each = (pinch.b - pinch.a) / (b - a);
  const from = pinch.a - a * each;
  actions.move(from, from + graph.width * each);
}

/**
 * @param {Graph} graph
 * @param {Down} down
 * @param {number} x
 * @param {number} y
 * @param {Page} actions
 */
function drag(graph, down, x, y, actions) {
  if (down.hit.kind === "ruler" || down.shift) {
    graph.measure = [graph.time(down.x - Graph.gutter), graph.time(x - Graph.gutter)];
    graph.draw();
    return;
  }
  if (down.hit.kind !== "lane") return;
  const shift = ((down.x - x) / graph.width) * (down.to - down.from);
  graph.scroll = Math.max(0, Math.min(down.scroll + down.y - y, graph.lanes.bottom - graph.height));
  actions.move(down.from + shift, down.to + shift);
}

/**
 * @param {Graph} graph
 * @param {WheelEvent} event
 * @param {Page} actions
 */
function wheel(graph, event, actions) {
  const lines = event.deltaMode === 1 ? 18 : 1;
  const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
  if (event.altKey) {
    graph.scroll = Math.max(0, Math.min(graph.scroll + dy, graph.lanes.bottom - graph.height));
    graph.draw();
  } else if (event.ctrlKey && !event.metaKey && graph.run.rows.length > 1) {
    actions.rowHeight(dy < 0 ? 1.25 : 0.8);
  } else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
    actions.pan((dx || dy) / graph.width);
  } else {
    actions.zoom(Math.exp(dy * 0.0018), graph.time(event.offsetX - Graph.gutter));
  }
}
