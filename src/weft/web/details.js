// Everything about the selected call.

import { announce, byId, el, replace, say } from "weft/dom.js";
import { rankName, systemName } from "weft/names.js";
import { sourceLines } from "weft/source.js";
import { tagged } from "weft/tips.js";
import { bytes, count, duration, exact, plural } from "weft/units.js";

/** @import { Call, EndCall, Finding, Id, MessageFacts } from "weft/sent" */
/** @import { Page } from "weft/main.js" */
/** @import { State } from "weft/state.js" */

export class Details {
  /**
   * @param {State} state
   * @param {Page} actions
   */
  constructor(state, actions) {
    this.panel = byId("details");
    this.state = state;
    this.actions = actions;
  }

  hide() {
    this.panel.hidden = true;
  }

  /**
   * @param {Call} call
   * @param {Finding[]} findings
   */
  show(call, findings) {
    this.panel.hidden = false;
    replace(
      this.panel,
      el("header", {}, el("h2", {}, call.function), this.close()),
      el(
        "div",
        { class: "quiet wraps" },
        `${rankName(call.rank)}${call.thread ? `, thread ${call.thread}` : ""}, event ${call.event} of 0 to ${call.count - 1}${call.task ? `, ${call.task}` : ""}`,
      ),
      call.open
        ? el(
            "p",
            { class: "alarm" },
            call.state === "running" || !call.state
              ? "This call never returned."
              : `This call never returned; the process is ${call.state}.`,
          )
        : null,
      call.error ? el("p", { class: "alarm" }, `It returned ${call.error_text}.`) : null,
      call.buffer_changed ? el("p", { class: "alarm" }, "The send buffer was changed while it was pending.") : null,
      call.damage ? el("p", { class: "alarm" }, `Arguments are damaged: ${call.damage}.`) : null,
      this.findings(call, findings),
      this.buttons(call),
      this.partners(call),
      this.source(call),
      el("h3", {}, "Times"),
      table([
        ["began", exact(call.enter_ns), "enter"],
        ["returned", call.exit_ns === null ? "never" : exact(call.exit_ns), "exit"],
        ["took", duration(call.duration_ns), "took"],
        call.polls ? ["polls", `${plural(call.polls, "failed one")} in a row`] : null,
        !call.polls && call.calls > 1 ? ["calls", `${plural(call.calls, "equal one")} in a row`] : null,
      ]),
      this.arguments(call),
      this.status(call),
      this.communicator(call),
      this.datatype(call),
      this.replay(call),
    );
    announce(
      `${call.function} of ${rankName(call.rank)}, ${call.open ? "never returned" : duration(call.duration_ns)}`,
    );
  }

  /**
   * @param {Call} call
   * @param {Finding[]} findings
   */
  findings(call, findings) {
    return call.findings.map((i) =>
      findings[i]
        ? el(
            "p",
            { class: findings[i].severity },
            el("span", { class: "kind" }, findings[i].kind),
            ` ${findings[i].message}.`,
          )
        : null,
    );
  }

  /** @param {Call} call */
  buttons(call) {
    return el(
      "div",
      { class: "actions" },
      el("button", { type: "button", onclick: () => this.actions.frame() }, "Zoom to it"),
      el(
        "button",
        { type: "button", "aria-pressed": String(this.state.around), onclick: () => this.actions.around() },
        "Past and future",
      ),
      el("button", { type: "button", title: "Previous call ( , )", onclick: () => this.actions.step(-1) }, "‹"),
      el("button", { type: "button", title: "Next call ( . )", onclick: () => this.actions.step(1) }, "›"),
    );
  }

  /** @param {Call} call */
  partners(call) {
    if (call.partners === null)
      return el("p", { class: "quiet" }, "Weft still matches the messages of the run and then shows the partners …");
    if (!call.partners.length) return null;
    return [
      el("h3", {}, "Partners"),
      el(
        "div",
        { class: "links" },
        call.partners
          .slice(0, 12)
          .map(({ what, event, site }) =>
            event
              ? el(
                  "button",
                  { type: "button", onclick: () => this.actions.jump(event) },
                  `${what} ${rankName(event[0])} `,
                  el("span", { class: "quiet" }, site),
                )
              : el("span", { class: "alarm" }, `${what} nobody: it has no partner in this run`),
          ),
      ),
      call.partners.length > 12 ? el("p", { class: "quiet" }, `and ${call.partners.length - 12} more`) : null,
    ];
  }

  /** @param {Call} call */
  source(call) {
    const { site, source } = call;
    return [
      el("h3", {}, "Source"),
      el(
        "div",
        { class: "mono" },
        site.file ? `${site.file}:${site.line}` : site.text,
        site.function ? ` ${site.function}` : "",
      ),
      source ? sourceLines(source, { around: 4 }) : null,
      source
        ? el(
            "div",
            { class: "actions" },
            el(
              "button",
              { type: "button", title: "Source ( 4 )", onclick: () => this.actions.openTab("source") },
              "Wider, with more lines",
            ),
          )
        : null,
      site.callers.length
        ? el(
            "div",
            { class: "quiet mono" },
            site.callers.slice(0, 6).map((c) => el("div", {}, `from ${c.text}`)),
          )
        : null,
    ];
  }

  /**
   * Everything about a chosen message: what it was, why somebody waited, and the calls at its ends.
   * @param {MessageFacts} facts
   */
  showMessage(facts) {
    this.panel.hidden = false;
    const { send, post, receive } = facts;
    const [from, to] = [send?.event[0] ?? facts.peer, post?.event[0] ?? facts.peer];
    /** @param {number} n */
    const rank = (n) => (n < 0 ? "any rank" : rankName(n));
    replace(
      this.panel,
      el("header", {}, el("h2", {}, "Message"), this.close()),
      el("div", { class: "route" }, `${rank(from)} → ${rank(to)}`),
      el(
        "div",
        { class: "actions" },
        el("button", { type: "button", onclick: () => this.actions.frame() }, "Zoom to it"),
        this.replayTo("Replay to its send", send),
        this.replayTo("Replay to its receive", post),
      ),
      facts.why.map((words) => el("p", { class: send && post ? "" : "alarm" }, words)),
      table([
        ["bytes", facts.bytes === null ? "not known" : count(facts.bytes), "message-bytes"],
        ["tag", facts.tag === -1 ? "any" : facts.tag, "message-tag"],
        ["communicator", facts.comm, "message-comm"],
        ["latency", facts.latency_ns === null ? "it never came" : duration(facts.latency_ns), "message-latency"],
      ]),
      el(
        "p",
        { class: "quiet small wraps" },
        "Latency: from the beginning of the send to the return of the call that had the message.",
      ),
      el("h3", {}, "Calls"),
      el(
        "div",
        { class: "links" },
        this.end("sent by", send),
        this.end("receive posted by", post),
        receive && String(receive.event) !== String(post?.event) ? this.end("delivered in", receive) : null,
      ),
    );
    announce(`Message from ${rank(from)} to ${rank(to)}, ${tagged(facts.tag)}. ${facts.why.join(" ")}`);
  }

  /**
   * @param {string} words
   * @param {EndCall | null} call
   */
  replayTo(words, call) {
    if (!call || this.actions.api.exported) return null;
    return el("button", { type: "button", onclick: () => this.actions.replay.to(call.event) }, words);
  }

  /**
   * @param {string} how
   * @param {EndCall | null} call
   */
  end(how, call) {
    if (!call) return null;
    const times = `began ${exact(call.enter_ns)}, ${call.exit_ns === null ? "never returned" : `returned ${exact(call.exit_ns)}`}`;
    return el(
      "button",
      { type: "button", "data-end": how, onclick: () => this.actions.jump(call.event) },
      `${how} ${call.function} of ${rankName(call.event[0])} `,
      el("span", { class: "quiet" }, call.site),
      el("span", { class: "quiet small" }, times),
    );
  }

  close() {
    return el(
      "button",
      { type: "button", title: "Close ( Esc )", "aria-label": "Close", onclick: () => this.actions.select(null) },
      "×",
    );
  }

  /** @param {Call} call */
  arguments(call) {
    if (!call.args.length) return null;
    return [
      el("h3", {}, "Arguments"),
      table(call.args.map((a) => [a.out ? `${a.name} (out)` : a.name, a.text, `arg-${a.name}`])),
    ];
  }

  /** @param {Call} call */
  status(call) {
    if (!call.status) return null;
    const { source, tag, bytes: size } = call.status;
    return [
      el("h3", {}, "Status"),
      table([
        ["source", source, "status-source"],
        ["tag", tag, "status-tag"],
        ["received", `${plural(size, "byte")}`, "status-bytes"],
        call.cancelled ? ["cancelled", "yes"] : null,
      ]),
    ];
  }

  /** @param {Call} call */
  communicator(call) {
    const { comm } = call;
    if (!comm) return null;
    return [
      el("h3", {}, "Communicator"),
      table([
        ["name", comm.label ? `${comm.label} (${comm.name})` : comm.name],
        ["made by", comm.made_by ?? systemName()],
        ["my rank", `${comm.my_rank} of ${count(comm.size)}`, "comm-rank"],
        ["members", comm.members, "comm-members"],
        comm.remote_members ? ["remote", comm.remote_members] : null,
      ]),
    ];
  }

  /** @param {Call} call */
  datatype(call) {
    const { datatype } = call;
    if (!datatype) return null;
    const runs = datatype.signature?.map(([name, n]) => `${count(n)} × ${name}`).join(", ");
    return [
      el("h3", {}, "Datatype"),
      table([
        ["name", datatype.name],
        datatype.size === null ? null : ["size", bytes(datatype.size)],
        datatype.extent === null ? null : ["extent", bytes(datatype.extent)],
        runs ? ["made of", runs] : null,
      ]),
    ];
  }

  /** @param {Call} call */
  replay(call) {
    if (this.actions.api.exported)
      return [
        el("h3", {}, "Replay to here"),
        copied("replay", call.replay, "Copy ( y )"),
        call.replay ? copied("stop", call.replay.replace(" --until ", " --break "), "Copy") : null,
      ];
    const event = /** @type {Id} */ ([call.rank, call.event]);
    return [
      el("h3", {}, "Replay"),
      el(
        "div",
        { class: "actions" },
        el(
          "button",
          {
            type: "button",
            id: "replay-here",
            title: "Stop before this call; other ranks run only as far as is needed for that ( r )",
            onclick: () => this.actions.replay.to(event),
          },
          "Replay to here",
        ),
        el(
          "button",
          {
            type: "button",
            id: "stop-here",
            title: "Stop before this call; other ranks run as far as they can ( b )",
            "aria-pressed": String(this.actions.replay.stopsAt(event)),
            onclick: () => this.actions.replay.stopAt(event),
          },
          "Stop here",
        ),
      ),
      copied("replay", call.replay, "Copy ( y )"),
    ];
  }

  /** @param {Call} call */
  markStop(call) {
    byId("stop-here")?.setAttribute("aria-pressed", String(this.actions.replay.stopsAt([call.rank, call.event])));
  }
}

/**
 * A command to be copied.
 * @param {string} id
 * @param {string} text
 * @param {string} title
 */
function copied(id, text, title) {
  return el(
    "div",
    { class: "copy" },
    el("code", { id }, text),
    el("button", { type: "button", title, onclick: () => copy(text) }, "Copy"),
  );
}

/**
 * A table of facts: [name, value, id].
 * @param {([name: string, value: unknown, id?: string] | null)[]} rows
 */
function table(rows) {
  return el(
    "table",
    {},
    el(
      "tbody",
      {},
      rows
        .filter((row) => row !== null)
        .map(([name, value, id]) =>
          el("tr", {}, el("th", { scope: "row" }, name), el("td", { class: "mono", "data-fact": id }, String(value))),
        ),
    ),
  );
}

/** @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied.");
  } catch {
    say("The browser does not let the page copy: select the text.");
  }
}
