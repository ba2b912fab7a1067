// Choosing calls: by click, by step, by jump to a partner; and what is shown of the chosen one.

import { copy } from "weft/details.js";
import { announce, byId } from "weft/dom.js";
import { hideTip } from "weft/pointer.js";

export const NEAREST = 20; // ns that a window shows at least

/** What the page does with calls; the page itself has the graph, the state and the panels. */
export class Calls {
  async click(hit) {
    if (hit.kind === "head") { this.fold(hit.item.name); return; }
    byId("graph").focus();
    if (hit.kind !== "lane" || !hit.item) { if (hit.kind === "lane") this.select(null); return; }
    const event = await this.eventAt(hit);
    this.select(event);
  }

  async eventAt(hit) {
    const i = this.graph.boxAt(hit);
    if (i >= 0) {
      const row = this.run.rows[hit.item.rows[0]];
      return [row[1], this.graph.part.data.event[i]];
    }
    const half = (this.state.to - this.state.from) / this.graph.width / 2;
    for (const row of hit.item.rows.slice(0, 64)) {
      const { event } = await this.api.at({ axis: this.state.axis, row, from: hit.at - half, to: hit.at + half });
      if (event) return event;
    }
    return null;
  }

  async open(hit) {
    const event = await this.eventAt(hit);
    if (event && (await this.select(event))) this.frame();
  }

  async select(event) {
    this.state.set({ selected: event });
    this.graph.around = null;
    if (!event) {
      this.graph.chosen = null;
      this.detailsPanel.hide();
      this.tables.mark(null);
      this.graph.draw();
      return false;
    }
    const call = await this.api.event(this.state.axis, ...event);
    if (String(this.state.selected) !== String(event)) return false;
    this.graph.chosen = call;
    this.detailsPanel.show(call, this.findings ?? []);
    this.tables.mark(call);
    this.graph.draw();
    if (this.state.around) this.shade();
    return true;
  }

  chosenPlace() { return this.graph.chosen?.place ?? null; }

  /** Selects a call and brings it into the window. */
  async jump(event) {
    hideTip();
    if (!(await this.select(event))) return;
    const [row, start, last] = this.chosenPlace();
    const end = this.graph.chosen.open ? start : last; // where it does not end it need not be seen to
    this.unfoldRows([row]);
    this.graph.scroll = this.scrolledTo(row);
    const { from, to } = this.state;
    if (start < from || start > to || end - start > to - from) {
      const wide = Math.max(Math.min(to - from, this.graph.axis.end), end - start);
      const middle = end - start > wide ? (start + end) / 2 : start + wide * 0.1;
      this.zoomTo(middle - wide / 2, middle + wide / 2);
    } else this.graph.draw();
  }

  scrolledTo(row) {
    const { graph } = this;
    const y = graph.lanes.rowY[row];
    if (y > graph.scroll + 10 && y < graph.scroll + graph.height - 10) return graph.scroll;
    return Math.max(0, Math.min(y - graph.height / 2, graph.lanes.bottom - graph.height));
  }

  frame() {
    const place = this.chosenPlace();
    if (!place) return;
    const end = Math.min(place[2], this.graph.axis.end);
    const wide = Math.max(end - place[1], NEAREST);
    this.zoomTo(place[1] - wide * 0.5, end + wide * 0.5);
  }

  step(by) {
    const call = this.graph.chosen;
    if (!call) { this.firstInView(); return; }
    const next = call.event + by;
    if (next >= 0 && next < call.count) this.jump([call.rank, next]);
  }

  row(by) {
    const place = this.chosenPlace();
    if (!place) { this.firstInView(); return; }
    const order = this.graph.lanes.lanes.flatMap((lane) => lane.rows);
    const row = order[order.indexOf(place[0]) + by];
    if (row !== undefined) this.nearest(row, Math.max(place[1], this.state.from));
  }

  async nearest(row, at) {
    const half = (this.state.to - this.state.from) / 2;
    for (const reach of [half / 500, half / 20, half, half * 20]) {
      const { event } = await this.api.at({ axis: this.state.axis, row, from: at - reach, to: at + reach });
      if (event) { this.jump(event); return; }
    }
    announce("there is no call near");
  }

  firstInView() { this.nearest(this.graph.lanes.lanes[0].rows[0], (this.state.from + this.state.to) / 2); }

  partner() {
    const partner = this.graph.chosen?.partners?.find((p) => p.event);
    if (partner) this.jump(partner.event);
    else announce("this call has no partner");
  }

  around() {
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

  copyReplay() { if (this.graph.chosen) copy(this.graph.chosen.replay); }
  escape() { hideTip(); this.graph.measure = null; this.select(null); }
}
