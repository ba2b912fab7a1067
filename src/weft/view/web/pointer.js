// Mouse and touch on the graph: click, drag, wheel, hover.

import { byId, shown } from "weft/dom.js";
import { Graph } from "weft/graph.js";
import { duration } from "weft/units.js";

const STILL = 4; // pixels that a click may move

export function listen(graph, actions) {
  const { canvas } = graph;
  let down = null;
  const place = (event) => [event.offsetX, event.offsetY];

  canvas.addEventListener("pointerdown", (event) => {
    const [x, y] = place(event);
    down = { x, y, from: graph.state.from, to: graph.state.to, scroll: graph.scroll, hit: graph.hit(x, y), moved: false, shift: event.shiftKey };
    canvas.setPointerCapture(event.pointerId);
    hideTip();
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    graph.hover = x - Graph.gutter;
    if (!down) { showTip(graph, event, graph.hit(x, y)); graph.draw(); return; }
    if (!down.moved && Math.hypot(x - down.x, y - down.y) < STILL) return;
    if (!down.moved) { down.moved = true; if (down.hit.kind === "lane" && !down.shift) graph.state.remember(); }
    drag(graph, down, x, y, actions);
  });
  canvas.addEventListener("pointerup", () => {
    if (!down) return;
    const { hit, moved, shift } = down;
    down = null;
    if (!moved) actions.click(hit);
    else if (hit.kind === "ruler") { actions.zoomTo(...sorted(graph.measure)); graph.measure = null; }
    else if (shift) graph.draw();
  });
  canvas.addEventListener("pointerleave", () => { graph.hover = null; hideTip(); graph.draw(); });
  canvas.addEventListener("dblclick", (event) => {
    const hit = graph.hit(...place(event));
    if (hit.kind === "lane") actions.open(hit);
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    hideTip();
    wheel(graph, event, actions);
  }, { passive: false });
}

const sorted = (pair) => [...pair].sort((a, b) => a - b);

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

function wheel(graph, event, actions) {
  const lines = event.deltaMode === 1 ? 18 : 1;
  const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
  if (event.altKey) {
    graph.scroll = Math.max(0, Math.min(graph.scroll + dy, graph.lanes.bottom - graph.height));
    graph.draw();
  } else if (event.ctrlKey && !event.metaKey && graph.run.rows.length > 1) {
    actions.rowHeight(dy < 0 ? 1.25 : 0.8);
  } else if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) {
    actions.pan(((dx || dy) / graph.width));
  } else {
    actions.zoom(Math.exp(dy * 0.0018), graph.time(event.offsetX - Graph.gutter));
  }
}

function showTip(graph, event, hit) {
  const text = tipText(graph, hit);
  const tip = byId("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = shown(text);
  const [w, h] = [tip.offsetWidth, tip.offsetHeight];
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 6))}px`;
  tip.style.top = `${event.clientY + 18 + h > innerHeight ? event.clientY - h - 10 : event.clientY + 18}px`;
}

export function hideTip() { byId("tip").hidden = true; }

function tipText(graph, hit) {
  if (hit.kind === "head") return `${hit.item.name}\n${hit.item.folded ? "click to unfold" : "click to fold"}`;
  if (hit.kind !== "lane" || !hit.item) return "";
  const i = graph.boxAt(hit);
  if (i >= 0) return boxText(graph, i, hit);
  const shares = graph.sharesAt(hit);
  const who = hit.item.rows.length > 1 ? `ranks ${graph.lanes.label(hit.item.rows, "")}` : `rank ${hit.item.label}`;
  return shares.length ? `${who}\n${shares.map(([name, share]) => `${name} ${share < 0.01 ? "<1" : Math.round(share * 100)} %`).join(", ")}` : "";
}

function boxText(graph, i, hit) {
  const { data } = graph.part;
  const [name] = graph.run.functions[data.function[i]] ?? ["?"];
  const open = !(data.flags[i] & 1);
  const long = graph.state.axis === "logical" ? "" : `, ${duration(graph.realTime(data.end[i]) - graph.realTime(data.start[i]))}`;
  return `${name}${open ? ", never returned" : long}\nrank ${hit.item.label}, call ${data.event[i]}`;
}
