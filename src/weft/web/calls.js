// Choosing calls: by click, by step, by jump to a partner; and what is shown of the chosen one.

import { copy } from "weft/details.js";
import { byId, say } from "weft/dom.js";
import { sideOf } from "weft/messages.js";
import { Moves, NEAREST } from "weft/moves.js";
import { hideTip } from "weft/tips.js";

/** @import { Hit, LaneHit } from "weft/drawn" */
/** @import { Finding, Id, Message, Side } from "weft/sent" */
/** @import { Details } from "weft/details.js" */
/** @import { Panes } from "weft/panes.js" */
/** @import { Replay } from "weft/replay.js" */
/** @import { Tables } from "weft/tables.js" */

/** What the page does with calls and messages; the page itself has the graph, the state and the panels. */
export class Calls extends Moves {
  // Page.start makes these, before anything can be chosen.
  /** @type {Details} */
  detailsPanel;
  /** @type {Panes} */
  panes;
  /** @type {Tables} */
  tables;
  /** @type {Replay} */
  replay;

  /** @type {Finding[] | undefined} there are none until the run is analysed */
  findings;

  /**
   * @param {Hit} hit
   * @param {Message | null} [message]
   */
  async click(hit, message = null) {
    if (hit.kind === "head") {
      this.fold(hit.item.name);
      return;
    }
    byId("graph").focus();
    if (message) {
      this.selectMessage([sideOf(message), message.row]);
      return;
    }
    if (hit.kind !== "lane" || !hit.item) {
      if (hit.kind === "lane") this.select(null);
      return;
    }
    const event = await this.eventAt(hit);
    this.select(event);
  }

  /**
   * @param {LaneHit} hit
   * @returns {Promise<Id | null>}
   */
  async eventAt(hit) {
    const i = this.graph.boxAt(hit);
    const rows = hit.item?.rows ?? [];
    const data = this.graph.part?.data;
    if (i >= 0 && data?.event) return [this.run.rows[rows[0]][1], data.event[i]];
    const half = (this.state.to - this.state.from) / this.graph.width / 2;
    for (const row of rows.slice(0, 64)) {
      const { event } = await this.api.at({ axis: this.state.axis, row, from: hit.at - half, to: hit.at + half });
      if (event) return event;
    }
    return null;
  }

  /** @param {LaneHit} hit */
  async open(hit) {
    const event = await this.eventAt(hit);
    if (event && (await this.select(event))) this.frame();
  }

  /** @param {Id | null} event */
  async select(event) {
    this.state.set({ selected: event, message: null });
    this.graph.around = null;
    this.graph.message = null;
    if (!event) {
      this.graph.chosen = null;
      this.detailsPanel.hide();
      this.tables.mark(null);
      this.panes.chosen("");
      this.graph.draw();
      return false;
    }
    const call = await this.api.event(this.state.axis, ...event);
    if (String(this.state.selected) !== String(event)) return false;
    this.graph.chosen = call;
    this.detailsPanel.show(call, this.findings ?? []);
    this.tables.mark(call);
    this.panes.chosen(call.function.replace(/^MPI_/, ""));
    this.graph.draw();
    if (this.state.around) this.shade();
    return true;
  }

  /**
   * Selects a message, named by its side and row; it stays marked until something else is chosen.
   * @param {[side: Side, row: number]} message
   */
  async selectMessage(message) {
    this.state.set({ selected: null, message });
    Object.assign(this.graph, { chosen: null, around: null });
    const { axis } = this.state;
    const facts = await this.api.message(axis, ...message);
    if (String(this.state.message) !== String(message) || this.state.axis !== axis) return;
    this.graph.message = { ...facts, axis };
    this.detailsPanel.showMessage(facts);
    this.tables.mark(null);
    this.panes.chosen("Message");
    this.graph.draw();
  }

  /** Brings the chosen message into the window. */
  frameMessage() {
    const places = this.graph.message?.places ?? [];
    const [from, to] = [
      Math.min(...places.map((p) => p[1])),
      Math.max(...places.map((p) => Math.min(p[2], this.graph.axis.end))),
    ];
    this.unfoldRows(places.map((p) => p[0]));
    const wide = Math.max(to - from, NEAREST);
    this.zoomTo(from - wide * 0.25, to + wide * 0.25);
  }

  /**
   * Selects a call and brings it into the window.
   * @param {Id} event
   */
  async jump(event) {
    hideTip();
    if (!(await this.select(event))) return;
    if (this.panes.narrow && document.body.dataset.pane !== "details") this.panes.show("graph");
    const { chosen } = this.graph;
    if (!chosen) return;
    const [row, start, last] = chosen.place;
    const end = chosen.open ? start : last; // where it does not end it need not be seen to
    this.unfoldRows([row]);
    this.graph.scroll = this.scrolledTo(row);
    const { from, to } = this.state;
    if (start < from || start > to || end - start > to - from) {
      const wide = Math.max(Math.min(to - from, this.graph.axis.end), end - start);
      const middle = end - start > wide ? (start + end) / 2 : start + wide * 0.1;
      this.zoomTo(middle - wide / 2, middle + wide / 2);
    } else this.graph.draw();
  }

  /** @param {number} row */
  scrolledTo(row) {
    const { graph } = this;
    const y = graph.lanes.rowY[row];
    if (y > graph.scroll + 10 && y < graph.scroll + graph.height - 10) return graph.scroll;
    return Math.max(0, Math.min(y - graph.height / 2, graph.lanes.bottom - graph.height));
  }

  frame() {
    if (this.graph.message) {
      this.frameMessage();
      return;
    }
    const place = this.chosenPlace();
    if (!place) {
      say("Choose a call first.");
      return;
    }
    const end = Math.min(place[2], this.graph.axis.end);
    const wide = Math.max(end - place[1], NEAREST);
    this.zoomTo(place[1] - wide * 0.5, end + wide * 0.5);
  }

  /** @param {number} by */
  step(by) {
    const call = this.graph.chosen;
    if (!call) {
      this.firstInView();
      return;
    }
    const next = call.event + by;
    if (next < 0) say("This is the first call of its rank.");
    else if (next >= call.count) say("This is the last call of its rank.");
    else this.jump([call.rank, next]);
  }

  /** @param {number} by */
  row(by) {
    const place = this.chosenPlace();
    if (!place) {
      this.firstInView();
      return;
    }
    const order = this.graph.lanes.lanes.flatMap((lane) => lane.rows);
    const row = order[order.indexOf(place[0]) + by];
    if (row === undefined) say(by < 0 ? "This is the first row." : "This is the last row.");
    else this.nearest(row, Math.max(place[1], this.state.from));
  }

  /**
   * @param {number} row
   * @param {number} at
   */
  async nearest(row, at) {
    const half = (this.state.to - this.state.from) / 2;
    for (const reach of [half / 500, half / 20, half, half * 20]) {
      const { event } = await this.api.at({ axis: this.state.axis, row, from: at - reach, to: at + reach });
      if (event) {
        this.jump(event);
        return;
      }
    }
    say("There is no call near.");
  }

  firstInView() {
    this.nearest(this.graph.lanes.lanes[0].rows[0], (this.state.from + this.state.to) / 2);
  }

  partner() {
    const { chosen, message } = this.graph;
    const partner = chosen?.partners?.find((p) => p.event);
    const end = message?.send ?? message?.post;
    if (partner?.event) this.jump(partner.event);
    else if (end) this.jump(end.event);
    else say(chosen ? "This call has no partner." : "Choose a call first.");
  }

  around() {
    if (!this.graph.chosen && !this.state.around) {
      say("Choose a call first: its past and future are shaded.");
      return;
    }
    this.state.set({ around: !this.state.around });
    if (this.graph.chosen) this.detailsPanel.show(this.graph.chosen, this.findings ?? []);
    if (this.state.around) this.shade();
    this.graph.draw();
  }

  async shade() {
    const { selected } = this.state;
    if (!selected) return;
    const around = await this.api.around(this.state.axis, ...selected);
    if (this.state.selected !== selected) return;
    this.graph.around = around;
    this.graph.draw();
  }

  replayHere() {
    const event = this.replayable("the program is replayed to it");
    if (event) this.replay.to(event);
  }

  stopHere() {
    const event = this.replayable("a replay stops there");
    if (event) this.replay.stopAt(event);
  }

  /**
   * The chosen call, where the program can be replayed to it.
   * @param {string} what
   */
  replayable(what) {
    if (this.api.exported) say("This file has no program behind it: copy the command ( y ).");
    else if (!this.graph.chosen) say(`Choose a call first: ${what}.`);
    else return /** @type {Id} */ ([this.graph.chosen.rank, this.graph.chosen.event]);
    return null;
  }

  /** The panel of the chosen call says whether a replay stops there. */
  stopsChanged() {
    if (this.graph.chosen) this.detailsPanel.markStop(this.graph.chosen);
  }

  copyReplay() {
    if (this.graph.chosen) copy(this.graph.chosen.replay);
    else say("Choose a call first: the command replays to it.");
  }

  escape() {
    if (!this.state.selected && !this.state.message && !this.graph.measure) say("Nothing is chosen.");
    hideTip();
    this.graph.measure = null;
    this.select(null);
  }
}
