// Everything about the selected call.

import { announce, byId, el, replace } from "weft/dom.js";
import { bytes, count, duration, exact } from "weft/units.js";

export class Details {
  constructor(state, actions) {
    this.panel = byId("details");
    this.state = state;
    this.actions = actions;
  }

  hide() { this.panel.hidden = true; }

  show(call, findings) {
    this.panel.hidden = false;
    replace(this.panel,
      el("header", {}, el("h2", {}, call.function), el("button", { type: "button", title: "Close ( Esc )", "aria-label": "Close", onclick: () => this.actions.select(null) }, "×")),
      el("div", { class: "quiet" }, `rank ${call.rank}${call.thread ? `, thread ${call.thread}` : ""}, event ${call.event} of 0 to ${call.count - 1}${call.task ? `, ${call.task}` : ""}`),
      call.open ? el("p", { class: "alarm" }, call.state === "running" || !call.state ? "This call never returned." : `This call never returned; the process is ${call.state}.`) : null,
      call.error ? el("p", { class: "alarm" }, `It returned error class ${call.error}.`) : null,
      call.buffer_changed ? el("p", { class: "alarm" }, "The send buffer was changed while it was pending.") : null,
      call.damage ? el("p", { class: "alarm" }, `Arguments are damaged: ${call.damage}.`) : null,
      this.findings(call, findings), this.buttons(call), this.partners(call), this.source(call),
      el("h3", {}, "Times"), facts([["began", exact(call.enter_ns), "enter"], ["returned", call.exit_ns === null ? "never" : exact(call.exit_ns), "exit"],
        ["took", duration(call.duration_ns), "took"], call.polls ? ["polls", `${count(call.polls)} failed ones in a row`] : null]),
      this.arguments(call), this.status(call), this.communicator(call), this.datatype(call), this.replay(call));
    announce(`${call.function} of rank ${call.rank}, ${call.open ? "never returned" : duration(call.duration_ns)}`);
  }

  findings(call, findings) {
    return call.findings.map((i) => (findings[i] ? el("p", { class: findings[i].severity }, el("span", { class: "kind" }, findings[i].kind), ` ${findings[i].message}.`) : null));
  }

  buttons(call) {
    return el("div", { class: "actions" },
      el("button", { type: "button", onclick: () => this.actions.frame() }, "Zoom to it"),
      el("button", { type: "button", "aria-pressed": String(this.state.around), onclick: () => this.actions.around() }, "Past and future"),
      el("button", { type: "button", title: "Previous call ( , )", onclick: () => this.actions.step(-1) }, "‹"),
      el("button", { type: "button", title: "Next call ( . )", onclick: () => this.actions.step(1) }, "›"));
  }

  partners(call) {
    if (call.partners === null) return el("p", { class: "quiet" }, "Partners are known when the run is matched …");
    if (!call.partners.length) return null;
    return [el("h3", {}, "Partners"), el("div", { class: "links" }, call.partners.slice(0, 12).map((p) =>
      (p.event ? el("button", { type: "button", onclick: () => this.actions.jump(p.event) }, `${p.what} rank ${p.event[0]} `, el("span", { class: "quiet" }, p.site))
        : el("span", { class: "alarm" }, `${p.what} nobody: it has no partner in this run`)))),
      call.partners.length > 12 ? el("p", { class: "quiet" }, `and ${call.partners.length - 12} more`) : null];
  }

  source(call) {
    const { site } = call;
    const lines = call.source;
    return [el("h3", {}, "Source"),
      el("div", { class: "mono" }, site.file ? `${site.file}:${site.line}` : site.text, site.function ? ` ${site.function}` : ""),
      lines ? el("pre", { class: "source", tabindex: "0", "aria-label": "source" }, lines.lines.map((text, i) =>
        el("span", { class: lines.first + i === lines.line ? "here" : "" }, `${String(lines.first + i).padStart(4)}  ${text}`))) : null,
      site.callers.length ? el("div", { class: "quiet mono" }, site.callers.slice(0, 6).map((c) => el("div", {}, `from ${c.text}`))) : null];
  }

  arguments(call) {
    if (!call.args.length) return null;
    return [el("h3", {}, "Arguments"), facts(call.args.map((a) => [a.out ? `${a.name} (out)` : a.name, a.text, `arg-${a.name}`]))];
  }

  status(call) {
    if (!call.status) return null;
    const { source, tag, bytes: size } = call.status;
    return [el("h3", {}, "Status"), facts([["source", source, "status-source"], ["tag", tag, "status-tag"], ["received", `${count(size)} bytes`, "status-bytes"], call.cancelled ? ["cancelled", "yes"] : null])];
  }

  communicator(call) {
    const { comm } = call;
    if (!comm) return null;
    return [el("h3", {}, "Communicator"), facts([["name", comm.label ? `${comm.label} (${comm.name})` : comm.name], ["made by", comm.made_by ?? "MPI"],
      ["my rank", `${comm.my_rank} of ${count(comm.size)}`, "comm-rank"], ["members", comm.members, "comm-members"], comm.remote_members ? ["remote", comm.remote_members] : null])];
  }

  datatype(call) {
    const { datatype } = call;
    if (!datatype) return null;
    const runs = datatype.signature?.map(([name, n]) => (typeof name === "number" ? `${name} × ${n}` : `${count(n)} × ${name}`)).join(", ");
    return [el("h3", {}, "Datatype"), facts([["name", datatype.name], datatype.size === null ? null : ["size", bytes(datatype.size)], datatype.extent === null ? null : ["extent", bytes(datatype.extent)], runs ? ["made of", runs] : null])];
  }

  replay(call) {
    return [el("h3", {}, "Replay to here"), el("div", { class: "copy" }, el("code", { id: "replay" }, call.replay),
      el("button", { type: "button", title: "Copy ( y )", onclick: () => copy(call.replay) }, "Copy"))];
  }
}

/** A table of facts: [name, value, id]. */
function facts(rows) {
  return el("table", {}, el("tbody", {}, rows.filter(Boolean).map(([name, value, id]) =>
    el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "mono", "data-fact": id }, String(value))))));
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("copied");
  } catch {
    announce("the browser does not let the page copy: select the text");
  }
}
