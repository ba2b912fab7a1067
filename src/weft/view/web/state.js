// What the page shows, kept in its address: a link to it shows the same. Windows can be taken back.

const KEPT = 200;

export class State extends EventTarget {
  constructor() {
    super();
    this.axis = "time";
    this.from = 0;
    this.to = 1;
    this.filter = "";
    this.selected = null; // [rank, event]
    this.message = null; // [side, row] of the chosen message
    this.finding = -1;
    this.grouping = null; // null: as the page thinks best
    this.around = false;
    this.tab = "";
    this.marks = [];
    this.folded = new Set(); // names of groups drawn as one lane
    this.past = [];
    this.future = [];
    this.timer = 0;
  }

  /** Changes fields and tells everybody. `step`: the window before can be taken back. */
  set(changes, { step = false } = {}) {
    if (step && ("from" in changes || "axis" in changes)) this.remember();
    Object.assign(this, changes);
    this.dispatchEvent(new CustomEvent("change", { detail: changes }));
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.write(), 250);
  }

  remember() {
    this.past.push({ axis: this.axis, from: this.from, to: this.to });
    if (this.past.length > KEPT) this.past.shift();
    this.future = [];
  }

  undo() {
    return this.swap(this.past, this.future);
  }
  redo() {
    return this.swap(this.future, this.past);
  }

  swap(out, into) {
    const before = out.pop();
    if (!before) return false;
    into.push({ axis: this.axis, from: this.from, to: this.to });
    this.set(before);
    return true;
  }

  write() {
    const words = { axis: this.axis, from: Math.round(this.from * 100) / 100, to: Math.round(this.to * 100) / 100 };
    if (this.filter) words.filter = this.filter;
    if (this.selected) words.call = this.selected.join(":");
    if (this.message) words.message = this.message.join(":");
    if (this.finding >= 0) words.finding = this.finding + 1;
    if (this.grouping !== null) words.rows = this.grouping;
    if (this.around) words.around = 1;
    if (this.tab) words.table = this.tab;
    if (this.marks.length) words.marks = this.marks.map((m) => Math.round(m)).join(",");
    history.replaceState(null, "", `#${new URLSearchParams(words)}`);
  }

  /** Takes what the address says; whether it named a window. */
  read() {
    const words = new URLSearchParams(location.hash.slice(1));
    const number = (name) =>
      words.has(name) && Number.isFinite(Number(words.get(name))) ? Number(words.get(name)) : null;
    if (["time", "folded", "logical"].includes(words.get("axis"))) this.axis = words.get("axis");
    this.filter = words.get("filter") ?? "";
    if (/^\d+:\d+$/.test(words.get("call") ?? "")) this.selected = words.get("call").split(":").map(Number);
    if (/^(send|receive):\d+$/.test(words.get("message") ?? ""))
      this.message = [words.get("message").split(":")[0], Number(words.get("message").split(":")[1])];
    if (number("finding") !== null) this.finding = number("finding") - 1;
    if (words.has("rows")) this.grouping = words.get("rows");
    this.around = words.get("around") === "1";
    this.tab = words.get("table") ?? "";
    this.marks = (words.get("marks") ?? "").split(",").filter(Boolean).map(Number).filter(Number.isFinite);
    const [from, to] = [number("from"), number("to")];
    if (from === null || to === null || !(from < to)) return false;
    this.from = from;
    this.to = to;
    return true;
  }
}
