// Puts the parts of the page together; every action of mouse and keys is here.

import { connect } from "weft/api.js";
import { Calls } from "weft/calls.js";
import { Details } from "weft/details.js";
import { announce, byId, el, messageOf, replace, say } from "weft/dom.js";
import { Findings } from "weft/findings.js";
import { Graph } from "weft/graph.js";
import { startKeys } from "weft/keys.js";
import { Minimap } from "weft/minimap.js";
import { takeNames } from "weft/names.js";
import { Panes } from "weft/panes.js";
import { listen } from "weft/pointer.js";
import { Replay } from "weft/replay.js";
import { Search } from "weft/search.js";
import { State } from "weft/state.js";
import { Tables } from "weft/tables.js";
import { startTheme, switchTheme } from "weft/theme.js";
import { duration, plural } from "weft/units.js";

/** @import { Findings as Answer, Spot } from "weft/sent" */
/** @import { Changes } from "weft/state.js" */

const AXES = [
  ["time", "Time"],
  ["folded", "Folded"],
  ["logical", "Logical"],
];

/** The page: Moves has what is done with the window, Calls what is done with calls and messages. */
export class Page extends Calls {
  // start() makes these.
  /** @type {Findings} */
  findingsPanel;
  /** @type {Search} */
  search;

  /** The change of the axis that is under way. */
  settled = Promise.resolve();

  async start() {
    startTheme(() => this.repaint());
    this.api = await connect();
    this.run = await this.api.run();
    takeNames(this.run);
    if (this.api.exported) byId("search").hidden = true;
    this.state = new State();
    const placed = this.state.read();
    this.heading();
    this.state.addEventListener("change", (event) => this.changed(detailOf(event)));
    this.panes = new Panes(this.state, this);
    this.graph = new Graph(byId("graph"), this.api, this.run, this.state);
    this.minimap = new Minimap(byId("minimap"), this.api, this.run, this.state, this);
    this.findingsPanel = new Findings(this.state, this);
    this.detailsPanel = new Details(this.state, this);
    this.search = new Search(this.api, this.state, this);
    this.replay = new Replay(this.api, this.state, this);
    this.tables = new Tables(this.api, this.state, this);
    listen(this.graph, this);
    startKeys(this);
    byId("help").addEventListener("click", () => this.help());
    byId("theme").addEventListener("click", () => this.theme());
    byId("graph").addEventListener("counted", () => this.counts());
    byId("graph").addEventListener("failed", (event) => {
      byId("counts").textContent = detailOf(event);
    });
    this.buttons();
    await this.useAxis(placed);
    this.choosers();
    await this.look(placed);
    document.body.dataset.ready = "yes";
    if (!this.api.exported) this.replay.follow();
  }

  /**
   * Takes the axis that the state names; without a window the whole of it is shown.
   * @param {boolean} placed
   */
  async useAxis(placed) {
    const axis = await this.api.axis(this.state.axis);
    if (axis.name !== this.state.axis) return;
    if (!placed) this.state.set({ from: 0, to: axis.end });
    this.graph.start(axis);
    this.graph.load();
    this.minimap.start(axis);
  }

  /**
   * Waits for the findings; a run that went wrong is shown where it did.
   * @param {boolean} placed
   */
  async look(placed) {
    let answer = await this.api.findings(this.state.axis, 2);
    document.body.dataset.ready = answer.ready ? "yes" : "drawn";
    while (!answer.ready) answer = await this.api.findings(this.state.axis, 15);
    this.take(answer);
    if (this.state.finding < 0 && answer.findings.length) this.state.finding = 0;
    this.choose(this.state.finding);
    if (!placed && answer.findings[0]?.severity === "error") this.fly(0, true);
    if (this.state.selected) this.select(this.state.selected);
    else if (this.state.message) this.selectMessage(this.state.message).catch((error) => say(messageOf(error)));
    this.graph.load();
  }

  /** @param {Answer} answer */
  take(answer) {
    this.findings = answer.findings;
    this.findingsPanel.show(answer);
    this.panes.counted(answer.findings.length);
    this.minimap.findings = answer.findings;
    this.minimap.draw();
  }

  heading() {
    const { run } = this;
    document.title = `${run.name} – Weft`;
    byId("title").textContent = run.name;
    /** @type {Record<string, [word: string, kind: string]>} */
    const kinds = {
      deadlock: ["deadlocked", "bad"],
      crashed: ["crashed", "bad"],
      killed: ["killed", "odd"],
      finished: ["finished", "good"],
      running: ["still running or cut off", "odd"],
    };
    const [word, kind] = kinds[run.ended] ?? ["", ""];
    byId("ended").textContent = word;
    byId("ended").className = `pill ${kind}`;
    byId("facts").textContent =
      `${plural(run.ranks, "rank")} · ${plural(run.events, "call")} · ${duration(run.last_ns)}`;
    byId("facts").title = run.command.join(" ");
    byId("sources-note").hidden = !run.sources_note;
    byId("sources-note").textContent = run.sources_note ? "sources changed" : "";
    byId("sources-note").title = run.sources_note ?? "";
  }

  /** What else only keys, wheel and fingers do. */
  buttons() {
    /** @type {[sign: string, title: string, action: () => void][]} */
    const all = [
      ["−", "Further away ( - )", () => this.zoom(1 / 0.6)],
      ["+", "Closer ( + )", () => this.zoom(0.6)],
      ["⤢", "The whole run ( f )", () => this.all()],
      ["‹", "Earlier ( ← )", () => this.pan(-0.4)],
      ["›", "Later ( → )", () => this.pan(0.4)],
      ["↶", "Back to the previous time window ( u )", () => this.undo()],
    ];
    replace(
      byId("moves"),
      all.map(([sign, title, action]) =>
        el("button", { type: "button", title, "aria-label": title.split(" (")[0], onclick: action }, sign),
      ),
    );
  }

  choosers() {
    replace(
      byId("axes"),
      AXES.filter(([name]) => this.api.has(name)).map(([name, title]) =>
        el(
          "button",
          {
            type: "button",
            role: "radio",
            "data-axis": name,
            "aria-checked": "false",
            title: `${title} ( t )`,
            onclick: () => this.axis(name),
          },
          title,
        ),
      ),
    );
    const names = Object.keys(this.run.groupings);
    replace(
      byId("grouping"),
      el("option", { value: "" }, "in order"),
      names.map((name) => el("option", { value: name }, `by ${name}`)),
    );
    byId("grouping").addEventListener("change", () => this.group(byId("grouping").value));
    this.marked();
  }

  /** @override */
  marked() {
    for (const button of byId("axes").querySelectorAll("button"))
      button.setAttribute("aria-checked", String(button.dataset.axis === this.state.axis));
    byId("grouping").value = this.graph.grouping;
  }

  /** @param {Changes} changes */
  changed(changes) {
    if ("from" in changes) {
      this.graph.load();
      this.minimap.draw();
      this.tables?.moved();
    }
    if ("axis" in changes) this.newAxis();
    if ("finding" in changes) this.findingsPanel.mark();
    if ("tab" in changes) this.tables.show(this.state.tab);
  }

  counts() {
    const { part, links } = this.graph;
    if (!part) return;
    const used = new Set(part.data.classes);
    replace(
      byId("legend"),
      this.run.classes
        .filter((name) => used.has(name))
        .map((name) => {
          const swatch = el("span", { class: "swatch" });
          swatch.style.background = `var(--${name})`;
          return el("li", {}, swatch, name);
        }),
    );
    const calls = part.data.events.reduce((sum, n) => sum + n, 0);
    const hidden = links.hidden
      ? `, ${links.messages.length ? `${this.state.filter && links.messages.some((m) => m.fits) ? "" : "the worst "}${plural(links.messages.length, "message")} drawn, ` : ""}${plural(links.hidden, "message")} hidden`
      : links.messages.length
        ? `, ${plural(links.messages.length, "message")}`
        : "";
    byId("counts").textContent = part.data.outline
      ? "an outline: the single calls of this stretch are not in the file"
      : `${plural(calls, "call")} here${hidden}`;
  }

  repaint() {
    this.graph?.lay();
    this.graph?.load();
    this.minimap?.load();
    if (this.state?.tab) this.tables?.show(this.state.tab);
  }

  // Findings

  /**
   * @param {number} i
   * @param {boolean} [still]
   */
  fly(i, still = false) {
    const finding = this.findings?.[i];
    if (!finding) return;
    this.choose(i);
    if (this.panes.narrow && !still) this.panes.show("graph");
    this.unfoldRows(finding.events.map((event) => event[2]));
    if (finding.window) this.zoomTo(...finding.window, still);
    announce(`${finding.severity}: ${finding.message}`);
  }

  /** @param {number} i */
  choose(i) {
    this.state.set({ finding: i });
    this.graph.take(this.findings?.[i] ?? null);
  }

  /** @param {number} by */
  finding(by) {
    if (!this.findings?.length) {
      this.noFinding();
      return;
    }
    const wanted = this.state.finding + by;
    if (wanted < 0) say("This is the first finding.");
    else if (wanted >= this.findings.length) say("This is the last finding.");
    else this.fly(wanted);
  }

  flyAgain() {
    if (this.findings?.length) this.fly(Math.max(0, this.state.finding));
    else this.noFinding();
  }
  noFinding() {
    say(this.findings ? "There are no findings." : "Weft still analyses the run.");
  }
  focusFindings() {
    this.findingsPanel.focus();
  }

  // Filter, axis, rows

  filtered() {
    this.graph.whole = null;
    this.graph.load();
    this.minimap.load();
  }

  /** @param {string} text */
  filter(text) {
    if (this.api.exported) {
      say("This file cannot be filtered: use weft view.");
      return;
    }
    byId("filter").value = text;
    if (this.panes.narrow) this.panes.show("graph");
    this.search.submit();
  }

  /** @param {boolean} back */
  next(back) {
    this.search.next(back);
  }

  /** @param {string} name */
  async axis(name) {
    if (name === this.state.axis) return;
    const { selected: call, message } = this.state;
    this.flight = null;
    this.state.remember();
    this.graph.links.axis = null;
    const anchor = await this.moved(name);
    this.state.set({ axis: name, ...anchor });
    await this.settled;
    if (call) this.select(call);
    else if (message) this.selectMessage(message);
  }

  /**
   * The window of another axis that shows about the same: it is taken from the calls at its ends.
   * @param {string} name
   */
  async moved(name) {
    const axis = await this.api.axis(name);
    /** @param {number} at */
    const share = (at) => Math.max(0, Math.min(1, at / this.graph.axis.end));
    const whole = this.state.from <= 0 && this.state.to >= this.graph.axis.end;
    const rows = this.graph.lanes.lanes.flatMap((lane) => lane.rows).slice(0, 6);
    /** @type {Spot[]} */
    const places = [];
    for (const row of whole ? [] : rows) {
      const { event } = await this.api.at({ axis: this.state.axis, row, from: this.state.from, to: this.state.to });
      if (event) places.push((await this.api.event(name, ...event)).place);
    }
    if (whole || !places.length)
      return {
        from: whole ? 0 : share(this.state.from) * axis.end,
        to: whole ? axis.end : share(this.state.to) * axis.end,
      };
    const starts = places.map((p) => p[1]);
    const ends = places.map((p) => Math.min(p[2], axis.end));
    const [from, to] = [Math.min(...starts), Math.max(...ends)];
    const pad = Math.max((to - from) * 0.4, name === "logical" ? 6 : 1000);
    return { from: from - pad, to: to + pad };
  }

  newAxis() {
    this.settled = (async () => {
      this.marked();
      this.replay.newAxis();
      await this.useAxis(true);
      const answer = await this.api.findings(this.state.axis, 15);
      if (answer.ready) {
        this.take(answer);
        this.choose(this.state.finding);
      }
    })();
  }

  nextAxis() {
    const names = AXES.map(([name]) => name).filter((name) => this.api.has(name));
    this.axis(names[(names.indexOf(this.state.axis) + 1) % names.length]);
  }

  /** @param {string} name */
  tab(name) {
    this.openTab(this.state.tab === name && !this.panes.narrow ? "" : name);
  }
  /** @param {string} name */
  openTab(name) {
    this.state.set({ tab: name });
    if (this.panes.narrow) this.panes.show(name ? "tables" : "graph");
  }
  theme() {
    switchTheme(() => this.repaint());
  }
  help() {
    const dialog = byId("keys");
    if (dialog.open) dialog.close();
    else dialog.showModal();
  }
}

/**
 * What an event of the page's own parts carries.
 * @template Detail
 * @param {Event} event
 */
const detailOf = (event) => /** @type {CustomEvent<Detail>} */ (event).detail;

const page = new Page();
page.start().catch((error) => {
  replace(
    byId("findings"),
    el("h2", {}, "Weft"),
    el("p", { class: "failed" }, `The run cannot be shown: ${messageOf(error)}`),
  );
  console.error(error);
});

export { page };
