// The list of findings, worst first: the page opens on it.

import { byId, el, replace } from "weft/dom.js";
import { plural } from "weft/units.js";

export class Findings {
  constructor(state, actions) {
    this.panel = byId("findings");
    this.state = state;
    this.actions = actions;
    this.all = [];
    replace(this.panel, el("h2", {}, "Findings"), el("p", { class: "quiet" }, "Weft looks through the run …"));
    this.panel.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      const buttons = [...this.panel.querySelectorAll("ol button")];
      buttons[Math.max(0, Math.min(buttons.length - 1, buttons.indexOf(document.activeElement) + by))]?.focus();
    });
  }

  show(answer) {
    this.all = answer.findings;
    const items = this.all.map((finding, i) => el("li", {}, this.button(finding, i)));
    replace(
      this.panel,
      el("h2", {}, this.all.length ? this.heading() : "Findings"),
      this.all.length
        ? el("ol", {}, items)
        : answer.failures.length
          ? null
          : answer.ends?.length
            ? el("p", { class: "quiet" }, "No misuse of MPI found.")
            : el("p", { class: "clean" }, "✓ Nothing found in this run."),
      answer.ends?.length
        ? [
            el("h2", {}, "Where it ended"),
            el(
              "ul",
              { class: "problems" },
              answer.ends.map((text) => el("li", {}, text)),
            ),
          ]
        : null,
      answer.failures.map((text) => el("p", { class: "failed" }, text)),
      this.actions.run.sources_note
        ? [el("h2", {}, "The sources"), el("p", { class: "problems" }, this.actions.run.sources_note)]
        : null,
      answer.problems?.length
        ? [
            el("h2", {}, "The record"),
            el(
              "ul",
              { class: "problems" },
              answer.problems.map((text) => el("li", {}, text)),
            ),
          ]
        : null,
    );
    this.mark();
  }

  heading() {
    const counts = ["error", "warning", "note"].map((s) => [this.all.filter((f) => f.severity === s).length, s]);
    return counts
      .filter(([n]) => n)
      .map(([n, s]) => plural(n, s))
      .join(", ");
  }

  button(finding, i) {
    const sure = finding.certainty === "certain" ? "" : `, ${finding.certainty}`;
    const places = [
      ...new Set(
        finding.sites
          .map((s) => (s.file ? `${s.file.split("/").at(-1)}${s.line ? `:${s.line}` : ""}` : ""))
          .filter(Boolean),
      ),
    ];
    return el(
      "button",
      { type: "button", class: finding.severity, onclick: () => this.actions.fly(i) },
      el("span", { class: "kind" }, `${finding.severity}: ${finding.kind}`),
      el("span", { class: "sure" }, sure),
      el("div", {}, `${finding.message}.`),
      places.length ? el("span", { class: "where" }, places.slice(0, 4).join(" · ")) : null,
    );
  }

  mark() {
    this.panel.querySelectorAll("ol button").forEach((button, i) => {
      button.setAttribute("aria-current", i === this.state.finding ? "true" : "false");
      if (i === this.state.finding) button.scrollIntoView({ block: "nearest" });
    });
  }

  focus() {
    this.actions.panes.show("findings");
    (this.panel.querySelectorAll("ol button")[Math.max(0, this.state.finding)] ?? this.panel).focus();
  }
}
