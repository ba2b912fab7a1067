// The replay behind the page: moves of it, where its ranks stand, what they wrote; the picture follows.

import { crossedAt } from "weft/cut.js";
import { byId, el, messageOf, replace, say } from "weft/dom.js";
import { rankName } from "weft/names.js";

/** @import { Api, Id, Move, Replay as Told, Stands, Written } from "weft/sent" */
/** @import { Page } from "weft/main.js" */
/** @import { State } from "weft/state.js" */
/** @import { Tables } from "weft/tables.js" */

const PATIENCE = 15; // seconds that the server waits for something new
/** @type {[move: Move, words: string, title: string, when: "stopped" | "running"][]} */
const MOVES = [
  ["reverse", "◀◀ Back", "Back to the last stop behind", "stopped"],
  ["back", "◀ Line back", "A line back on this rank; where no lines are known, a call", "stopped"],
  ["next", "Next line ▶", "The next line of this rank; where no lines are known, the next call", "stopped"],
  ["continue", "Continue ▶▶", "Run to the next stop on any rank, or to the end", "stopped"],
  ["pause", "Pause", "Ranks stop at their next calls", "running"],
  ["start", "Begin anew", "Before each rank's first call", "stopped"],
];

export class Replay {
  /**
   * @param {Api} api
   * @param {State} state
   * @param {Page} actions
   */
  constructor(api, state, actions) {
    this.api = api;
    this.state = state;
    this.actions = actions;
    /** @type {Told | null} */
    this.told = null;
    /** @type {Written[]} */
    this.output = [];
    this.rank = 0;
    this.written = 0;
    this.acting = 0;
    this.agreed = !actions.run.elsewhere;
    /** @type {AbortController | null} the question that is under way */
    this.asked = null;
    this.follows = false;
  }

  get there() {
    return this.told !== null && !["none", "failed"].includes(this.told.state);
  }

  /**
   * To a call, and no further than is needed for it.
   * @param {Id} event
   */
  to(event) {
    return this.act("until", { rank: event[0], event: event[1] });
  }

  /**
   * Stop before a call from now on; a second time, no longer.
   * @param {Id} event
   */
  stopAt(event) {
    return this.act("stop", { rank: event[0], event: event[1] });
  }

  /** @param {Id} event */
  stopsAt([rank, event]) {
    return Boolean(this.told?.stops.some(([r, e]) => r === rank && e === event));
  }

  /**
   * @param {Move} move
   * @param {{ rank?: number, event?: number }} [given]
   */
  async act(move, given = {}) {
    if (!this.there && !this.agree()) return;
    this.acting += 1;
    this.actions.openTab("replay");
    this.follow();
    try {
      await this.api.move(move, { ...given, agreed: this.agreed });
    } catch (error) {
      say(messageOf(error));
    }
    this.acting -= 1;
  }

  /** Starting a program that ran elsewhere is asked about: the record may be somebody else's. */
  agree() {
    const { command, folder } = this.actions.run;
    const whose = "This run was recorded by somebody else, or on another machine. A replay executes, with your rights";
    const words = `${whose}:\n\n${command.join(" ")}\n\nin ${folder}`;
    this.agreed ||= confirm(words);
    return this.agreed;
  }

  /** Takes what the server tells, as long as there is a replay. */
  async follow() {
    if (this.follows) return;
    this.follows = true;
    try {
      do await this.once(this.told ? PATIENCE : 0);
      while (this.there || this.acting);
    } catch (error) {
      say(messageOf(error));
    }
    this.follows = false;
  }

  /** @param {number} patience */
  async once(patience) {
    const { axis } = this.state;
    const asked = (this.asked = new AbortController());
    const version = this.actions.graph.replay?.axis === axis ? (this.told?.version ?? -1) : -1;
    try {
      const told = await this.api.replay({ axis, version, written: this.written, patience }, asked.signal);
      if (axis === this.state.axis) this.take(told, axis);
    } catch (error) {
      if (!asked.signal.aborted) throw error;
    }
  }

  /** The places are those of another axis now. */
  newAxis() {
    this.asked?.abort();
  }

  /**
   * @param {Told} told
   * @param {string} axis
   */
  take(told, axis) {
    const before = this.told;
    if (told.first !== this.written) this.output = [];
    this.output.push(...told.output);
    this.written = told.written;
    this.told = told;
    if (before?.focus !== told.focus) this.rank = told.focus;
    const { graph } = this.actions;
    graph.replay = { ...told, axis };
    graph.draw();
    this.show();
    this.actions.stopsChanged();
    const moved = before?.focus !== told.focus || JSON.stringify(before.ranks) !== JSON.stringify(told.ranks);
    if (moved && told.ranks.length) this.bring();
  }

  /** The window goes where the rank in focus is. */
  bring() {
    const row = this.told?.ranks.find((one) => one.rank === this.rank);
    const at = row && crossedAt(row);
    if (!row?.at || at === null || at === undefined) return;
    const { from, to } = this.state;
    this.actions.graph.scroll = this.actions.scrolledTo(row.at[0]);
    if (at < from || at > to) this.actions.zoomTo(at - (to - from) / 2, at + (to - from) / 2);
  }

  // The panel

  /** @param {Tables} [tables] what the panel belongs to: the page may not have it yet */
  show(tables = this.actions.tables) {
    if (this.state.tab !== "replay") return;
    const panel = byId("tables");
    const { scrollTop } = panel;
    const written = panel.querySelector(".written");
    const atEnd = !written || written.scrollTop + written.clientHeight >= written.scrollHeight - 4;
    const active = document.activeElement?.id;
    replace(panel, tables.choice("replay"), ...this.parts());
    panel.scrollTop = scrollTop;
    const now = panel.querySelector(".written");
    if (now && atEnd) now.scrollTop = now.scrollHeight;
    if (active?.startsWith("move-")) byId(active)?.focus();
  }

  parts() {
    const { told } = this;
    if (this.api.exported)
      return [
        el(
          "p",
          { class: "quiet wraps" },
          "This file has no program behind it. The panel of a chosen call has the commands that replay to it and stop at it.",
        ),
      ];
    if (!told || !this.there)
      return [
        el(
          "p",
          { class: told?.state === "failed" ? "failed" : "quiet wraps" },
          told?.state === "failed"
            ? told.said
            : "The program is started again and follows its record: choose a call and replay to it, or begin at the start.",
        ),
        el(
          "div",
          { class: "actions" },
          el("button", { type: "button", id: "move-start", onclick: () => this.act("start") }, "Begin at the start"),
        ),
        this.wrote(),
      ];
    return [this.buttons(told), el("div", { class: "replayed" }, this.ranks(told), this.wrote())];
  }

  /** @param {Told} told */
  buttons(told) {
    const stopped = told.state === "stopped";
    const state = { starting: "starts …", running: "runs …", stopped: "stands", none: "", failed: "" }[told.state];
    return el(
      "div",
      { class: "actions", role: "toolbar", "aria-label": "Replay" },
      MOVES.map(([move, words, title, when]) =>
        el(
          "button",
          {
            type: "button",
            id: `move-${move}`,
            title,
            disabled: told.state !== when || (told.over && ["next", "continue"].includes(move)),
            onclick: () => this.act(move, { rank: this.rank }),
          },
          words,
        ),
      ),
      el("button", { type: "button", id: "move-end", onclick: () => this.act("end") }, "End"),
      el(
        "span",
        { id: "replay-said", class: "wraps", role: "status" },
        told.said || (stopped ? `${rankName(this.rank)} ${this.standing()}` : state),
      ),
    );
  }

  standing() {
    return this.told?.ranks.find((row) => row.rank === this.rank)?.words ?? "";
  }

  /** @param {Told} told */
  ranks(told) {
    return el(
      "table",
      { class: "sorted" },
      el("caption", {}, "Where the ranks stand"),
      el(
        "tbody",
        {},
        told.ranks.map((row) =>
          el(
            "tr",
            { "aria-current": row.rank === this.rank ? "true" : undefined },
            el("th", { scope: "row" }, this.name(row)),
            el("td", { class: "mono" }, row.words),
          ),
        ),
      ),
    );
  }

  /** @param {Stands} row */
  name(row) {
    const go = () => {
      this.rank = row.rank;
      this.show();
      if (row.event) this.actions.jump(row.event);
    };
    const words = `${rankName(row.rank)}${row.thread ? `, thread ${row.thread}` : ""}`;
    return el("button", { type: "button", class: "row-go", onclick: go }, words);
  }

  /** What the ranks wrote, by rank. */
  wrote() {
    if (!this.output.length) return el("p", { class: "quiet" }, this.there ? "Nothing has been written." : "");
    return el(
      "pre",
      { class: "written", tabindex: "0", "aria-label": "What the ranks wrote" },
      this.output.map(([rank, kind, text]) =>
        el(
          "span",
          { class: kind === "stderr" || kind === "important" ? "alarm" : "" },
          rank === null ? "" : el("i", {}, `${rankName(rank)} `),
          text,
        ),
      ),
    );
  }
}
