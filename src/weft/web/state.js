// What the page shows, kept in its address: a link to it shows the same. Windows can be taken back.

/** @import { Id, Side } from "weft/sent" */

const KEPT = 200;

/**
 * A window that was shown.
 * @typedef {{ axis: string, from: number, to: number }} Shown
 */

/** @typedef {Partial<Pick<State, Kept>>} Changes */
/**
 * @typedef {"axis" | "from" | "to" | "filter" | "selected" | "message" | "finding" | "grouping" | "around" | "tab" | "marks"
 *   | "folded"} Kept
 */

export class State extends EventTarget {
  constructor() {
    super();
    this.axis = "time";
    this.from = 0;
    this.to = 1;
    this.filter = "";
    /** @type {Id | null} */
    this.selected = null;
    /** @type {[side: Side, row: number] | null} the chosen message */
    this.message = null;
    this.finding = -1;
    /** @type {string | null} null: as the page thinks best */
    this.grouping = null;
    this.around = false;
    this.tab = "";
    /** @type {number[]} */
    this.marks = [];
    /** @type {Set<string>} names of groups drawn as one lane */
    this.folded = new Set();
    /** @type {Shown[]} */
    this.past = [];
    /** @type {Shown[]} */
    this.future = [];
    this.timer = 0;
  }

  /**
   * Changes fields and tells everybody. `step`: the window before can be taken back.
   * @param {Changes} changes
   * @param {{ step?: boolean }} how
   */
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

  /**
   * @param {Shown[]} out
   * @param {Shown[]} into
   */
  swap(out, into) {
    const before = out.pop();
    if (!before) return false;
    into.push({ axis: this.axis, from: this.from, to: this.to });
    this.set(before);
    return true;
  }

  write() {
    /** @type {Record<string, string>} */
    const words = { axis: this.axis, from: hundredths(this.from), to: hundredths(this.to) };
    if (this.filter) words.filter = this.filter;
    if (this.selected) words.call = this.selected.join(":");
    if (this.message) words.message = this.message.join(":");
    if (this.finding >= 0) words.finding = String(this.finding + 1);
    if (this.grouping !== null) words.rows = this.grouping;
    if (this.around) words.around = "1";
    if (this.tab) words.table = this.tab;
    if (this.marks.length) words.marks = this.marks.map((m) => Math.round(m)).join(",");
    history.replaceState(null, "", `#${new URLSearchParams(words)}`);
  }

  /** Takes what the address says; whether it named a window. */
  read() {
    const words = new URLSearchParams(location.hash.slice(1));
    /** @param {string} name */
    const word = (name) => words.get(name) ?? "";
    /** @param {string} name */
    const number = (name) => (words.has(name) && Number.isFinite(Number(word(name))) ? Number(word(name)) : null);
    if (["time", "folded", "logical"].includes(word("axis"))) this.axis = word("axis");
    this.filter = word("filter");
    const call = /^(\d+):(\d+)$/.exec(word("call"));
    if (call) this.selected = [Number(call[1]), Number(call[2])];
    const message = /^(send|receive):(\d+)$/.exec(word("message"));
    if (message) this.message = [message[1] === "send" ? "send" : "receive", Number(message[2])];
    this.finding = (number("finding") ?? this.finding + 1) - 1;
    this.grouping = words.get("rows");
    this.around = word("around") === "1";
    this.tab = word("table");
    this.marks = word("marks").split(",").filter(Boolean).map(Number).filter(Number.isFinite);
    const [from, to] = [number("from"), number("to")];
    if (from === null || to === null || !(from < to)) return false;
    this.from = from;
    this.to = to;
    return true;
  }
}

/** @param {number} value */
const hundredths = (value) => String(Math.round(value * 100) / 100);
