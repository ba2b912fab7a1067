// Below the graph: where the time of the window went, who sent to whom, who made others wait; the source; the legend.

import { byId, el, messageOf, replace, sortedTable } from "weft/dom.js";
import { legendPanel } from "weft/legend.js";
import { matrixPicture } from "weft/matrix.js";
import { rankName, systemName } from "weft/names.js";
import { sourcePanel } from "weft/source.js";
import { bytes, count, duration, exact, plural } from "weft/units.js";

/** @import { HeadCell, Row } from "weft/dom.js" */
/** @import { Api, Call, Stretch, Tables as Sums } from "weft/sent" */
/** @import { Page } from "weft/main.js" */
/** @import { State } from "weft/state.js" */

/** @typedef {"profile" | "matrix" | "waits"} OfWindow a table whose numbers are those of a stretch of time */

/** @type {Record<string, string>} */
const TABS = {
  profile: "Time",
  matrix: "Messages",
  waits: "Waiting",
  source: "Source",
  legend: "Legend",
  replay: "Replay",
};
const STILL = 350; // ms that a window stands still before its tables are asked for

export class Tables {
  /**
   * @param {Api} api
   * @param {State} state
   * @param {Page} actions
   */
  constructor(api, state, actions) {
    this.api = api;
    this.state = state;
    this.actions = actions;
    this.panel = byId("tables");
    /** @type {(Sums & { asked: Stretch }) | null} */
    this.data = null;
    /** @type {Call | null} */
    this.call = null;
    this.timer = 0;
    this.whole = false; // whether the whole run is wanted, not the window
    const buttons = Object.entries(TABS).map(([name, title], i) =>
      el(
        "button",
        {
          type: "button",
          id: `tab-${name}`,
          title: `${title} ( ${i + 1} )`,
          "aria-pressed": "false",
          onclick: () => actions.tab(name),
        },
        title,
      ),
    );
    replace(byId("tables-tabs"), buttons);
    if (state.tab in TABS) this.show(state.tab);
  }

  get ofWindow() {
    return isOfWindow(this.state.tab);
  }

  /** @param {string} name */
  async show(name) {
    for (const tab of Object.keys(TABS)) byId(`tab-${tab}`).setAttribute("aria-pressed", String(tab === name));
    this.panel.hidden = !(name in TABS);
    byId("tables-grip").hidden = this.panel.hidden;
    if (this.panel.hidden) return;
    if (name === "legend") {
      replace(this.panel, this.choice(name), legendPanel(this.actions.run));
      return;
    }
    if (name === "replay") {
      this.actions.replay.show(this);
      return;
    }
    if (name === "source") {
      this.source();
      return;
    }
    if (!this.fits(this.data)) {
      if (!this.data) replace(this.panel, this.choice(name), el("p", { class: "quiet" }, "Weft adds up the run …"));
      if (!(await this.load(name))) return;
    }
    if (this.data && isOfWindow(name)) this.fill(name, this.data);
  }

  /**
   * @param {OfWindow} name
   * @param {Sums} data
   */
  fill(name, data) {
    const { scrollTop } = this.panel;
    replace(this.panel, this.choice(name), this.base(data), this[name](data));
    this.panel.scrollTop = scrollTop;
    this.panel.dataset.shown = `${name} ${data.from} ${data.to}`;
    this.mark(this.call);
  }

  /** Another window: its tables are asked for when it stands still. */
  moved() {
    clearTimeout(this.timer);
    if (!this.ofWindow || this.panel.hidden || this.whole) return;
    this.timer = setTimeout(() => this.show(this.state.tab), STILL);
  }

  given() {
    const { axis, from, to } = this.state;
    return this.whole ? { axis, from: 0, to: this.actions.graph.axis.end } : { axis, from, to };
  }

  /** @param {(Sums & { asked: Stretch }) | null} data */
  fits(data) {
    const { axis, from, to } = this.given();
    return data && (data.fixed || (data.asked.axis === axis && data.asked.from === from && data.asked.to === to));
  }

  /** @param {string} name */
  async load(name) {
    const asked = this.given();
    try {
      const data = await this.api.tables(asked);
      this.data = { ...data, asked };
    } catch (error) {
      this.data = null;
      replace(this.panel, this.choice(name), el("p", { class: "failed" }, messageOf(error)));
      return false;
    }
    return this.state.tab === name;
  }

  // What stands above each

  /**
   * The tabs again, where the page shows one part at a time.
   * @param {string} name
   */
  choice(name) {
    return el(
      "div",
      { class: "tabs again" },
      Object.entries(TABS).map(([tab, title]) =>
        el(
          "button",
          { type: "button", "aria-pressed": String(tab === name), onclick: () => this.actions.openTab(tab) },
          title,
        ),
      ),
    );
  }

  /**
   * Of which time the numbers are, what their percentages are of, and the switch between window and run.
   * @param {Sums} data
   */
  base(data) {
    const logical = this.state.axis === "logical";
    /** @param {number} place */
    const at = (place) => (logical ? `step ${count(Math.round(place))}` : exact(this.actions.graph.realTime(place)));
    const span = data.whole ? "The whole run" : `From ${at(data.from)} to ${at(data.to)}`;
    const long =
      data.whole || logical
        ? ""
        : ` (${duration(this.actions.graph.realTime(data.to) - this.actions.graph.realTime(data.from))})`;
    /** @param {boolean} whole */
    const choose = (whole) => {
      this.whole = whole;
      this.show(this.state.tab);
    };
    return el(
      "div",
      { class: "base" },
      el("span", { id: "tables-span" }, `${span}${long}.`),
      this.state.tab !== "matrix"
        ? el("span", { class: "quiet", id: "tables-base" }, `100 % is ${data.waiting.base.text}.`)
        : null,
      this.state.tab !== "matrix" && data.waiting.crowded
        ? el("span", { class: "warned" }, sentence(data.waiting.crowded))
        : null,
      this.state.tab !== "matrix" && data.waiting.open_calls
        ? el(
            "span",
            { class: "quiet" },
            `${plural(data.waiting.open_calls, "call")} of the run never returned: the time in ${data.waiting.open_calls === 1 ? "it" : "them"} is not counted.`,
          )
        : null,
      data.fixed
        ? el("span", { class: "quiet" }, "An exported file has the numbers of the whole run only.")
        : el(
            "span",
            { class: "segments", role: "radiogroup", "aria-label": "Time of the tables" },
            [
              { whole: false, title: "Window" },
              { whole: true, title: "Whole run" },
            ].map(({ whole, title }) =>
              el(
                "button",
                {
                  type: "button",
                  role: "radio",
                  "aria-checked": String(this.whole === whole),
                  onclick: () => choose(whole),
                },
                title,
              ),
            ),
          ),
    );
  }

  /**
   * Marks the rows that speak of the chosen call.
   * @param {Call | null} call
   */
  mark(call) {
    const other = call !== this.call;
    this.call = call;
    if (this.state.tab === "source" && other) {
      this.source();
      return;
    }
    if (!this.ofWindow) return;
    const names = new Set(
      call ? [call.function, rankName(call.rank), `${call.function} at ${call.site.text.split(" ")[0]}`] : [],
    );
    const peers = call?.partners?.flatMap((p) => (p.event ? [p.event[0]] : [])) ?? [];
    const pairs = new Set(peers.flatMap((peer) => [`${call?.rank} ${peer}`, `${peer} ${call?.rank}`]));
    /** @type {HTMLTableRowElement | null} */
    let first = null;
    for (const row of /** @type {NodeListOf<HTMLTableRowElement>} */ (this.panel.querySelectorAll("tbody tr"))) {
      const mine =
        names.has(row.cells[0].textContent) ||
        (this.state.tab === "matrix" && pairs.has(`${row.cells[0].textContent} ${row.cells[1].textContent}`));
      row.setAttribute("aria-current", String(mine));
      first ??= mine ? row : null;
    }
    if (other) first?.scrollIntoView({ block: "nearest" });
  }

  source() {
    replace(this.panel, this.choice("source"), sourcePanel(this.call));
    this.panel.querySelector(".here")?.scrollIntoView({ block: "center" });
  }

  // The tables

  /** @param {Sums} data */
  profile(data) {
    /** @type {[key: "function" | "rank" | "site", title: string][]} */
    const keys = [
      ["function", "Function"],
      ["rank", "Rank"],
      ["site", "Call site"],
    ];
    const total = data.waiting.base.ns || 1;
    return el(
      "div",
      { class: "profiles" },
      keys.map(([key, title]) => {
        const rows = data.times[key];
        /** @type {HeadCell[]} */
        const heads = [
          [title, false],
          ["calls", true],
          [`time in ${systemName()}`, true],
          ["of all", true],
          ["waiting", true],
        ];
        return el(
          "section",
          {},
          el("h3", {}, `Time by ${title.toLowerCase()}`),
          sortedTable(
            `Time by ${title}`,
            heads,
            rows.slice(0, 200).map((row) => ({
              cells: [
                key === "rank" ? rankName(Number(row.name.replace("rank ", ""))) : row.name,
                count(row.calls),
                duration(row.ns),
                `${((row.ns / total) * 100).toFixed(1)} %`,
                row.waiting_ns ? duration(row.waiting_ns) : "–",
              ],
              values: [row.name, row.calls, row.ns, row.ns, row.waiting_ns],
              go: this.filterOf(key, row.name),
            })),
            (filter) => this.actions.filter(filter),
          ),
        );
      }),
    );
  }

  /**
   * The filter that selects a row of the profile in the graph.
   * @param {string} key
   * @param {string} name
   */
  filterOf(key, name) {
    if (key === "function") return `fn:${name}`;
    if (key === "rank") return `rank:${name.replace("rank ", "")}`;
    const [call, place] = name.split(" at ");
    return place && !place.includes(" ") ? `fn:${call} site:${place}` : `fn:${call}`;
  }

  /** @param {Sums} data */
  matrix(data) {
    const { ranks_per_block: each, messages, bytes: sizes } = data.matrix;
    /** @type {[i: number, j: number, messages: number, bytes: number][]} */
    const rows = [];
    messages.forEach((line, i) =>
      line.forEach((n, j) => {
        if (n) rows.push([i, j, n, sizes[i][j]]);
      }),
    );
    if (!rows.length) return el("p", { class: "quiet" }, "No message was sent from rank to rank in this time.");
    const { ranks } = this.actions.run;
    /** @param {number} i */
    const last = (i) => Math.min((i + 1) * each, ranks) - 1;
    /** @param {number} i */
    const name = (i) => (i * each === last(i) ? `${last(i)}` : `${i * each}–${last(i)}`);
    /**
     * @param {number} i
     * @param {number} j
     */
    const go = (i, j) =>
      this.actions.filter(
        `fn:*send*,*put*,*accumulate* rank:${name(i).replace("–", "-")} peer:${name(j).replace("–", "-")}`,
      );
    /** @type {HeadCell[]} */
    const heads = [
      ["from", true],
      ["to", true],
      ["messages", true],
      ["bytes", true],
    ];
    rows.sort((a, b) => b[3] - a[3] || b[2] - a[2]);
    /** @type {Row<[i: number, j: number]>[]} */
    const list = rows.slice(0, 500).map(([i, j, n, size]) => ({
      cells: [`${name(i)}`, name(j), count(n), bytes(size)],
      values: [i, j, n, size],
      go: [i, j],
    }));
    /** @param {number} k */
    const sum = (k) => rows.reduce((total, row) => total + row[k], 0);
    return el(
      "div",
      { class: "matrix" },
      matrixPicture({ messages, bytes: sizes }, name, go),
      el(
        "div",
        {},
        el("h3", {}, `Messages and bytes from rank to rank${each > 1 ? `, ${plural(each, "rank")} a row` : ""}`),
        el("p", { class: "quiet" }, `${plural(sum(2), "message")}, ${bytes(sum(3))} in all`),
        sortedTable("Messages from rank to rank", heads, list, ([i, j]) => go(i, j)),
      ),
    );
  }

  /** @param {Sums} data */
  waits(data) {
    const rows = data.culprits;
    const { base, causes, in_mpi_ns: inside } = data.waiting;
    /** @param {number} ns */
    const share = (ns) => `${((ns / (base.ns || 1)) * 100).toFixed(1)} %`;
    /**
     * @param {string} name
     * @param {number} ns
     * @returns {Row<never>}
     */
    const cause = (name, ns) => ({ cells: [name, duration(ns), share(ns)], values: [name, ns, ns] });
    /** @type {HeadCell[]} */
    const heads = [
      ["late", true],
      ["how", false],
      ["cost", true],
      ["of all", true],
      ["waits", true],
      ["who waited", false],
      ["worst", true],
    ];
    return el(
      "div",
      { class: "profiles" },
      el(
        "section",
        {},
        el("h3", {}, `Time in ${systemName()} by cause`),
        sortedTable(
          `Time in ${systemName()} by cause`,
          [
            ["cause", false],
            ["time", true],
            ["of all", true],
          ],
          [...causes.map((one) => cause(one.name, one.ns)), cause(`in ${systemName()}`, inside)],
        ),
      ),
      el(
        "section",
        {},
        el("h3", {}, "Waiting by who caused it"),
        rows.length
          ? sortedTable(
              "Waiting by culprit",
              heads,
              rows.slice(0, 500).map((row) => ({
                cells: [
                  rankName(row.rank),
                  row.name,
                  duration(row.ns),
                  share(row.ns),
                  count(row.waits),
                  row.waiting,
                  duration(row.worst_ns),
                ],
                values: [row.rank, row.name, row.ns, row.ns, row.waits, row.waiting, row.worst_ns],
                go: row.event,
              })),
              (event) => this.actions.jump(event),
            )
          : el("p", { class: "clean" }, "Nobody waited for anybody in this time."),
      ),
    );
  }
}

/** @param {string} words */
const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

/**
 * @param {string} name
 * @returns {name is OfWindow}
 */
const isOfWindow = (name) => ["profile", "matrix", "waits"].includes(name);
