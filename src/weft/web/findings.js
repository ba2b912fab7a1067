// The list of findings, worst first: the page opens on it.

import { byId, el, replace } from "weft/dom.js";
import { systemName } from "weft/names.js";
import { plural } from "weft/units.js";

/** @import { Finding, Findings as Answer } from "weft/sent" */
/** @import { Page } from "weft/main.js" */
/** @import { State } from "weft/state.js" */

const MOST_OUTCOMES = 6;

export class Findings {
  /**
   * @param {State} state
   * @param {Page} actions
   */
  constructor(state, actions) {
    this.panel = byId("findings");
    this.state = state;
    this.actions = actions;
    /** @type {Finding[]} */
    this.all = [];
    replace(this.panel, el("h2", {}, "Findings"), el("p", { class: "quiet" }, "Weft looks through the run …"));
    this.panel.addEventListener("keydown", (event) => {
      const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      const buttons = this.buttons();
      const at = buttons.findIndex((button) => button === document.activeElement);
      buttons[Math.max(0, Math.min(buttons.length - 1, at + by))]?.focus();
    });
  }

  /** @param {Answer} answer */
  show(answer) {
    this.all = answer.findings;
    const items = this.all.map((finding, i) => el("li", {}, this.button(finding, i), this.outcomes(finding)));
    replace(
      this.panel,
      answer.failures.map((text) => el("p", { class: "failed" }, text)),
      answer.gaps?.map((text) => el("p", { class: "problems" }, `${text}.`)),
      el("h2", {}, this.all.length ? this.heading() : "Findings"),
      this.all.length
        ? el("ol", {}, items)
        : answer.failures.length
          ? null
          : answer.ends?.length
            ? el("p", { class: "quiet" }, `No misuse of ${systemName()} found.`)
            : answer.gaps?.length
              ? el("p", { class: "quiet" }, "Nothing found in what was recorded.")
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
    const counts = ["error", "warning", "note"].map((word) => ({
      n: this.all.filter((f) => f.severity === word).length,
      word,
    }));
    return counts
      .filter(({ n }) => n)
      .map(({ n, word }) => plural(n, word))
      .join(", ");
  }

  /**
   * @param {Finding} finding
   * @param {number} i
   */
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

  /**
   * Links to the outcomes of a race that were explored, each beside the record.
   * @param {Finding} finding
   */
  outcomes(finding) {
    const explored = finding.evidence.explored ?? [];
    if (!explored.length || this.actions.api.exported) return null;
    return el(
      "div",
      { class: "outcomes" },
      explored
        .slice(0, MOST_OUTCOMES)
        .map(({ run, effects }) =>
          el(
            "a",
            { href: `/beside?${new URLSearchParams({ of: run })}`, title: `the record and ${run}, aligned` },
            `both orders: ${effects[0] ?? "the same result"}`,
          ),
        ),
    );
  }

  buttons() {
    return [.../** @type {NodeListOf<HTMLButtonElement>} */ (this.panel.querySelectorAll("ol button"))];
  }

  mark() {
    this.buttons().forEach((button, i) => {
      button.setAttribute("aria-current", i === this.state.finding ? "true" : "false");
      if (i === this.state.finding) button.scrollIntoView({ block: "nearest" });
    });
  }

  focus() {
    this.actions.panes.show("findings");
    (this.buttons()[Math.max(0, this.state.finding)] ?? this.panel).focus();
  }
}
