// Puts the parts of the page together; every action of mouse and keys is here.

import { connect } from "weft/api.js";
import { Calls, NEAREST } from "weft/calls.js";
import { Details } from "weft/details.js";
import { announce, byId, el, replace } from "weft/dom.js";
import { Findings } from "weft/findings.js";
import { Graph } from "weft/graph.js";
import { startKeys } from "weft/keys.js";
import { foldedAtFirst } from "weft/lanes.js";
import { Minimap } from "weft/minimap.js";
import { listen } from "weft/pointer.js";
import { Search } from "weft/search.js";
import { State } from "weft/state.js";
import { Tables } from "weft/tables.js";
import { startTheme, switchTheme } from "weft/theme.js";
import { duration, plural } from "weft/units.js";

const AXES = [["time", "Time"], ["folded", "Folded"], ["logical", "Logical"]];
const FLIGHT = 260; // ms

class Page extends Calls {
  async start() {
    startTheme(() => this.repaint());
    this.api = await connect();
    this.run = await this.api.run();
    if (this.api.exported) byId("search").hidden = true;
    this.state = new State();
    const placed = this.state.read();
    this.heading();
    this.state.addEventListener("change", (event) => this.changed(event.detail));
    this.graph = new Graph(byId("graph"), this.api, this.run, this.state);
    this.minimap = new Minimap(byId("minimap"), this.api, this.run, this.state, this);
    this.findingsPanel = new Findings(this.state, this);
    this.detailsPanel = new Details(this.state, this);
    this.search = new Search(this.api, this.state, this);
    this.tables = new Tables(this.api, this.state, this);
    listen(this.graph, this);
    startKeys(this);
    byId("help").addEventListener("click", () => this.help());
    byId("theme").addEventListener("click", () => this.theme());
    byId("graph").addEventListener("counted", () => this.counts());
    byId("graph").addEventListener("failed", (event) => { byId("counts").textContent = event.detail; });
    await this.useAxis(placed);
    this.choosers();
    await this.look(placed);
    document.body.dataset.ready = "yes";
  }

  /** Takes the axis that the state names; without a window the whole of it is shown. */
  async useAxis(placed) {
    const axis = await this.api.axis(this.state.axis);
    if (axis.name !== this.state.axis) return;
    if (!placed) this.state.set({ from: 0, to: axis.end });
    this.graph.start(axis);
    this.graph.load();
    this.minimap.start(axis);
  }

  /** Waits for the findings; a run that went wrong is shown where it did. */
  async look(placed) {
    let answer = await this.api.findings(this.state.axis, 2);
    document.body.dataset.ready = answer.ready ? "yes" : "drawn";
    while (!answer.ready) answer = await this.api.findings(this.state.axis, 15);
    this.take(answer);
    if (this.state.finding < 0 && answer.findings.length) this.state.finding = 0;
    this.choose(this.state.finding);
    if (!placed && answer.findings[0]?.severity === "error") this.fly(0, true);
    if (this.state.selected) this.select(this.state.selected);
    this.graph.load();
  }

  take(answer) {
    this.findings = answer.findings;
    this.findingsPanel.show(answer);
    this.minimap.findings = answer.findings;
    this.minimap.draw();
  }

  heading() {
    const { run } = this;
    document.title = `${run.name} – Weft`;
    byId("title").textContent = run.name;
    const kinds = { deadlock: ["deadlocked", "bad"], crashed: ["crashed", "bad"], killed: ["killed", "odd"], finished: ["finished", "good"], running: ["still running or cut off", "odd"] };
    const [word, kind] = kinds[run.ended] ?? ["", ""];
    byId("ended").textContent = word;
    byId("ended").className = `pill ${kind}`;
    byId("facts").textContent = `${plural(run.ranks, "rank")} · ${plural(run.events, "call")} · ${duration(run.last_ns)}`;
    byId("facts").title = run.command.join(" ");
  }

  choosers() {
    replace(byId("axes"), AXES.filter(([name]) => !this.api.exported || this.api.data.axes[name]).map(([name, title]) => el("button", { type: "button", role: "radio", "data-axis": name, "aria-checked": "false", title: `${title} ( t )`, onclick: () => this.axis(name) }, title)));
    const names = Object.keys(this.run.groupings);
    replace(byId("grouping"), el("option", { value: "" }, "in order"), names.map((name) => el("option", { value: name }, `by ${name}`)));
    byId("grouping").addEventListener("change", (event) => this.group(event.target.value));
    this.marked();
  }

  marked() {
    for (const button of byId("axes").children) button.setAttribute("aria-checked", String(button.dataset.axis === this.state.axis));
    byId("grouping").value = this.graph.grouping;
  }

  changed(changes) {
    if ("from" in changes) { this.graph.load(); this.minimap.draw(); }
    if ("axis" in changes) this.newAxis(changes);
    if ("finding" in changes) this.findingsPanel.mark();
    if ("tab" in changes) this.tables.show(this.state.tab);
  }

  counts() {
    const { part, links } = this.graph;
    if (!part) return;
    const used = new Set(part.data.classes);
    replace(byId("legend"), this.run.classes.filter((name) => used.has(name)).map((name) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.background = `var(--${name})`;
      return el("li", {}, swatch, name);
    }));
    const calls = part.data.events.reduce((sum, n) => sum + n, 0);
    const hidden = links.hidden ? `, ${links.messages.length ? `the worst ${plural(links.messages.length, "message")} drawn, ` : ""}${plural(links.hidden, "message")} hidden` : links.messages.length ? `, ${plural(links.messages.length, "message")}` : "";
    byId("counts").textContent = part.data.outline ? "an outline: the single calls of this stretch are not in the file" : `${plural(calls, "call")} here${hidden}`;
  }

  repaint() {
    this.graph?.lay();
    this.graph?.load();
    this.minimap?.load();
    if (this.state?.tab) this.tables.show(this.state.tab);
  }

  // Windows

  /** The window, kept within reach of the run. */
  move(from, to) {
    const { end } = this.graph.axis;
    const least = this.state.axis === "logical" ? 2 : NEAREST;
    const wide = Math.max(least, Math.min(to - from, end * 1.4));
    const middle = Math.max(0, Math.min(end, (from + to) / 2));
    this.state.set({ from: middle - wide / 2, to: middle + wide / 2 });
  }

  zoomTo(from, to, still = false) {
    this.state.remember();
    if (still || matchMedia("(prefers-reduced-motion: reduce)").matches) { this.move(from, to); return; }
    const [a, b] = [this.state.from, this.state.to];
    const begun = performance.now();
    const flight = (this.flight = Symbol("flight"));
    const frame = (now) => {
      if (this.flight !== flight) return;
      const t = Math.min(1, (now - begun) / FLIGHT);
      const s = t * t * (3 - 2 * t);
      this.move(a + (from - a) * s, b + (to - b) * s);
      if (t < 1) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  stepped(from, to) { this.flight = null; this.zoomOnce(); this.move(from, to); }

  /** Of a flurry of small steps the first one can be taken back. */
  zoomOnce() {
    const now = performance.now();
    if (now - (this.lastStep ?? -1e9) > 600) this.state.remember();
    this.lastStep = now;
  }

  pan(share) { const by = (this.state.to - this.state.from) * share; this.stepped(this.state.from + by, this.state.to + by); }

  zoom(factor, at = this.focus()) {
    const { from, to } = this.state;
    this.stepped(at - (at - from) * factor, at + (to - at) * factor);
  }

  /** What keys zoom around: the chosen call where it is seen, else the middle. */
  focus() {
    const { from, to } = this.state;
    const place = this.chosenPlace();
    const at = place ? Math.max(place[1], from) : null;
    return at !== null && at <= to && place[2] >= from ? at : (from + to) / 2;
  }

  all() { this.zoomTo(0, this.graph.axis.end); }
  end(side) { const wide = this.state.to - this.state.from; const at = side < 0 ? 0 : this.graph.axis.end - wide; this.zoomTo(at, at + wide); }
  undo() { this.flight = null; this.state.undo(); }
  redo() { this.flight = null; this.state.redo(); }

  rowHeight(factor) {
    const { graph } = this;
    graph.rowHeight = Math.max(0, Math.min(90, (graph.rowHeight || Math.max(8, graph.lanes.height)) * factor));
    if (graph.rowHeight * this.run.rows.length <= graph.height || graph.rowHeight < 3) graph.rowHeight = factor < 1 ? 0 : graph.rowHeight;
    graph.lay();
    graph.load();
  }

  scroll(share) { const { graph } = this; graph.scroll = Math.max(0, Math.min(graph.scroll + graph.height * share, graph.lanes.bottom - graph.height)); graph.draw(); }

  // Findings

  fly(i, still = false) {
    const finding = this.findings?.[i];
    if (!finding) return;
    this.choose(i);
    this.unfoldRows(finding.events.map((event) => event[2]));
    if (finding.window) this.zoomTo(...finding.window, still);
    announce(`${finding.severity}: ${finding.message}`);
  }

  choose(i) {
    this.state.set({ finding: i });
    this.graph.finding = this.findings?.[i] ?? null;
    this.graph.draw();
  }

  finding(by) {
    if (!this.findings?.length) return;
    this.fly(Math.max(0, Math.min(this.findings.length - 1, this.state.finding + by)));
  }

  flyAgain() { this.fly(Math.max(0, this.state.finding)); }
  focusFindings() { this.findingsPanel.focus(); }

  // Filter, axis, rows

  filtered() { this.graph.whole = null; this.graph.load(); this.minimap.load(); }
  filter(text) { byId("filter").value = text; this.search.submit(); }
  next(back) { this.search.next(back); }

  async axis(name) {
    if (name === this.state.axis) return;
    const call = this.state.selected;
    this.flight = null;
    this.state.remember();
    this.graph.links.axis = null;
    const anchor = await this.moved(name);
    this.state.set({ axis: name, ...anchor });
    await this.settled;
    if (call) this.select(call);
  }

  /** The window of another axis that shows about the same: it is taken from the calls at its ends. */
  async moved(name) {
    const axis = await this.api.axis(name);
    const share = (at) => Math.max(0, Math.min(1, at / this.graph.axis.end));
    const whole = this.state.from <= 0 && this.state.to >= this.graph.axis.end;
    const rows = this.graph.lanes.lanes.flatMap((lane) => lane.rows).slice(0, 6);
    const places = [];
    for (const row of whole ? [] : rows) {
      const { event } = await this.api.at({ axis: this.state.axis, row, from: this.state.from, to: this.state.to });
      if (event) places.push((await this.api.event(name, ...event)).place);
    }
    if (whole || !places.length) return { from: whole ? 0 : share(this.state.from) * axis.end, to: whole ? axis.end : share(this.state.to) * axis.end };
    const starts = places.map((p) => p[1]);
    const ends = places.map((p) => Math.min(p[2], axis.end));
    const [from, to] = [Math.min(...starts), Math.max(...ends)];
    const pad = Math.max((to - from) * 0.4, name === "logical" ? 6 : 1000);
    return { from: from - pad, to: to + pad };
  }

  newAxis() {
    this.settled = (async () => {
      this.marked();
      await this.useAxis(true);
      const answer = await this.api.findings(this.state.axis, 15);
      if (answer.ready) { this.take(answer); this.choose(this.state.finding); }
    })();
  }

  nextAxis() { const names = AXES.map(([name]) => name); this.axis(names[(names.indexOf(this.state.axis) + 1) % names.length]); }

  group(name) {
    this.state.set({ grouping: name, folded: new Set(foldedAtFirst(this.run, name)) });
    this.graph.rowHeight = 0;
    this.graph.lay();
    this.graph.load();
    this.marked();
  }

  nextGrouping() {
    const names = ["", ...Object.keys(this.run.groupings)];
    this.group(names[(names.indexOf(this.graph.grouping) + 1) % names.length]);
  }

  fold(name) {
    const { folded } = this.state;
    if (!folded.delete(name)) folded.add(name);
    this.graph.lay();
    this.graph.load();
  }

  foldAll() {
    const names = (this.run.groupings[this.graph.grouping] ?? []).map(([name]) => name);
    const { folded } = this.state;
    if (names.every((name) => folded.has(name))) folded.clear();
    else names.forEach((name) => folded.add(name));
    this.graph.lay();
    this.graph.load();
  }

  /** Rows that something happens in are not hidden in a folded group, where that leaves the graph readable. */
  unfoldRows(rows) {
    const groups = this.run.groupings[this.graph.grouping] ?? [];
    const hidden = groups.filter(([name, of]) => this.state.folded.has(name) && of.length <= 64 && rows.some((row) => of.includes(row)));
    if (!hidden.length) return;
    for (const [name] of hidden) this.state.folded.delete(name);
    this.graph.lay();
    this.graph.load();
  }

  mark() {
    const at = this.focus();
    const { marks, from, to } = this.state;
    const near = marks.find((m) => Math.abs(m - at) < (to - from) * 0.004);
    this.state.set({ marks: near === undefined ? [...marks, at] : marks.filter((m) => m !== near) });
    this.graph.draw();
    this.minimap.draw();
  }

  tab(name) { this.state.set({ tab: this.state.tab === name ? "" : name }); }
  theme() { switchTheme(() => this.repaint()); }
  help() { const dialog = byId("keys"); if (dialog.open) dialog.close(); else dialog.showModal(); }
}

const page = new Page();
page.start().catch((error) => {
  replace(byId("findings"), el("h2", {}, "Weft"), el("p", { class: "failed" }, `The run cannot be shown: ${error.message}`));
  console.error(error);
});

export { page };
