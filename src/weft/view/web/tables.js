// Beside the graph: where the time went, who sent to whom, who made others wait. Each has a table.

import { byId, el, replace, sortedTable } from "weft/dom.js";
import { colours, rgb } from "weft/theme.js";
import { bytes, count, duration } from "weft/units.js";

const TABS = { profile: "Time", matrix: "Messages", waits: "Waiting" };
const CELL = 320;

export class Tables {
  constructor(api, state, actions) {
    Object.assign(this, { api, state, actions });
    this.panel = byId("tables");
    this.data = null;
    const buttons = Object.entries(TABS).map(([name, title], i) =>
      el("button", { type: "button", id: `tab-${name}`, title: `${title} ( ${i + 1} )`, "aria-pressed": "false", onclick: () => actions.tab(name) }, title));
    replace(byId("tables-tabs"), buttons);
    if (state.tab in TABS) this.show(state.tab);
  }

  async show(name) {
    for (const tab of Object.keys(TABS)) byId(`tab-${tab}`).setAttribute("aria-pressed", String(tab === name));
    this.panel.hidden = !(name in TABS);
    if (this.panel.hidden) return;
    if (!this.data) {
      replace(this.panel, el("p", { class: "quiet" }, "Weft adds up the run …"));
      try { this.data = await this.api.tables(); } catch (error) { replace(this.panel, el("p", { class: "failed" }, error.message)); return; }
      if (this.state.tab !== name) return;
    }
    replace(this.panel, this[name]());
    this.mark(this.call);
  }

  /** Marks the rows that speak of the chosen call. */
  mark(call) {
    this.call = call;
    const names = new Set(call ? [call.function, `rank ${call.rank}`, `${call.function} at ${call.site.text.split(" ")[0]}`] : []);
    const peers = call?.partners?.filter((p) => p.event).map((p) => p.event[0]) ?? [];
    const pairs = new Set(peers.flatMap((peer) => [`${call.rank} ${peer}`, `${peer} ${call.rank}`]));
    let first = null;
    for (const row of this.panel.querySelectorAll("tbody tr")) {
      const mine = names.has(row.cells[0].textContent) || (this.state.tab === "matrix" && pairs.has(`${row.cells[0].textContent} ${row.cells[1].textContent}`));
      row.setAttribute("aria-current", String(mine));
      first ??= mine ? row : null;
    }
    first?.scrollIntoView({ block: "nearest" });
  }

  profile() {
    const keys = [["function", "Function"], ["rank", "Rank"], ["site", "Call site"]];
    const total = this.data.waiting.base.ns || 1;
    return [this.base(), ...keys.map(([key, title]) => {
      const rows = this.data.times[key];
      const heads = [[title, false], ["calls", true], ["time in MPI", true], ["of all", true], ["waiting", true]];
      return el("section", {}, el("h3", {}, `Time by ${title.toLowerCase()}`), sortedTable(`Time by ${title}`, heads, rows.slice(0, 200).map((row) => ({
        cells: [row.name, count(row.calls), duration(row.ns), `${((row.ns / total) * 100).toFixed(1)} %`, row.waiting_ns ? duration(row.waiting_ns) : "–"],
        values: [row.name, row.calls, row.ns, row.ns, row.waiting_ns], go: this.filterOf(key, row.name),
      })), (filter) => this.actions.filter(filter)));
    })];
  }

  /** What every share is a share of, and whether ranks had to share cores. */
  base() {
    const { base, crowded } = this.data.waiting;
    return el("p", { class: "quiet" }, `Shares are of ${base.text}.${crowded ? ` ${crowded}.` : ""}`);
  }

  /** The time in MPI by cause: the same numbers as in the report. */
  causes() {
    const { causes, in_mpi_ns: inside, base } = this.data.waiting;
    const share = (ns) => `${((ns / (base.ns || 1)) * 100).toFixed(1)} %`;
    const rows = [...causes, { name: "in MPI", ns: inside }];
    return el("section", {}, el("h3", {}, "Time in MPI by cause"), sortedTable("Time in MPI by cause", [["cause", false], ["time", true], ["of all", true]],
      rows.map((row) => ({ cells: [row.name, duration(row.ns), share(row.ns)], values: [row.name, row.ns, row.ns] })), () => {}));
  }

  /** The filter that selects a row of the profile in the graph. */
  filterOf(key, name) {
    if (key === "function") return `fn:${name}`;
    if (key === "rank") return `rank:${name.replace("rank ", "")}`;
    const [call, place] = name.split(" at ");
    return place && !place.includes(" ") ? `fn:${call} site:${place}` : `fn:${call}`;
  }

  matrix() {
    const { ranks_per_block: each, messages, bytes: sizes } = this.data.matrix;
    const rows = [];
    messages.forEach((line, i) => line.forEach((n, j) => { if (n) rows.push([i, j, n, sizes[i][j]]); }));
    if (!rows.length) return el("p", { class: "quiet" }, "No messages from rank to rank.");
    const name = (i) => (each === 1 ? `${i}` : `${i * each}–${(i + 1) * each - 1}`);
    const go = (i, j) => this.actions.filter(`fn:*send*,*put*,*accumulate* rank:${name(i).replace("–", "-")} peer:${name(j).replace("–", "-")}`);
    const heads = [["from", true], ["to", true], ["messages", true], ["bytes", true]];
    rows.sort((a, b) => b[3] - a[3] || b[2] - a[2]);
    const list = rows.slice(0, 500).map(([i, j, n, size]) => ({ cells: [`${name(i)}`, name(j), count(n), bytes(size)], values: [i, j, n, size], go: [i, j] }));
    return el("div", { class: "matrix" }, this.picture(messages, sizes, name, go),
      el("div", {}, el("h3", {}, `Messages and bytes from rank to rank${each > 1 ? `, ${each} ranks a row` : ""}`), sortedTable("Messages from rank to rank", heads, list, ([i, j]) => go(i, j))));
  }

  picture(messages, sizes, name, go) {
    const n = messages.length;
    const canvas = el("canvas", { width: n, height: n, role: "img", "aria-label": "Bytes from rank (row) to rank (column); the table beside it has the numbers" });
    canvas.style.width = canvas.style.height = `${Math.max(n, Math.floor(CELL / n) * n)}px`;
    const shown = sizes.some((line) => line.some(Boolean)) ? sizes : messages;
    const most = Math.log1p(Math.max(...shown.map((line) => Math.max(...line))));
    const context = canvas.getContext("2d");
    const [r, g, b] = rgb(colours().accent);
    shown.forEach((line, i) => line.forEach((value, j) => {
      context.fillStyle = `rgba(${r}, ${g}, ${b}, ${messages[i][j] ? 0.12 + 0.88 * (Math.log1p(value) / (most || 1)) : 0})`;
      context.fillRect(j, i, 1, 1);
    }));
    const cell = (event) => [Math.floor((event.offsetY / canvas.clientHeight) * n), Math.floor((event.offsetX / canvas.clientWidth) * n)];
    canvas.addEventListener("click", (event) => go(...cell(event)));
    canvas.addEventListener("pointermove", (event) => {
      const [i, j] = cell(event);
      if (messages[i]?.[j] !== undefined) canvas.title = `rank ${name(i)} to ${name(j)}: ${count(messages[i][j])} messages, ${bytes(sizes[i][j])}`;
    });
    return canvas;
  }

  waits() {
    const rows = this.data.culprits;
    if (!rows.length) return [this.base(), el("p", { class: "clean" }, "Nobody waited for anybody."), this.causes()];
    const heads = [["late", true], ["how", false], ["cost", true], ["waits", true], ["who waited", false], ["worst", true]];
    return [this.base(), el("h3", {}, "Waiting by who caused it"), sortedTable("Waiting by culprit", heads, rows.slice(0, 500).map((row) => ({
      cells: [`rank ${row.rank}`, row.name, duration(row.ns), count(row.waits), row.waiting, duration(row.worst_ns)],
      values: [row.rank, row.name, row.ns, row.waits, row.waiting, row.worst_ns], go: row.event,
    })), (event) => this.actions.jump(event)), this.causes()];
  }
}
