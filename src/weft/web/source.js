// The source around the chosen call: its lines marked, coloured, as wide as the graph.

import { el } from "weft/dom.js";
import { rankName } from "weft/names.js";

/** @import { Call, Source } from "weft/sent" */

const KINDS = new Set(["k", "f", "s", "n", "c", "p"]); // keyword, function, string, number, comment, preprocessor or decorator

/**
 * The last line of the call's statement, which may go on over several.
 * @param {Source} source
 */
function lastOf(source) {
  const { statement, line } = source;
  return statement ? Math.max(line, statement.first + statement.text.split("\n").length - 1) : line;
}

/**
 * The lines of a source, those of the call marked; all, or some around it.
 * @param {Source} source
 * @param {{ around?: number }} [how]
 */
export function sourceLines(source, { around = Infinity } = {}) {
  const last = lastOf(source);
  const begin = Math.min(source.line, source.statement?.first ?? source.line);
  const from = Math.max(source.first, begin - around);
  const shown = source.coloured
    .map((line, i) => ({ at: source.first + i, line }))
    .filter(({ at }) => at >= from && at <= last + around);
  const digits = String(source.first + source.coloured.length).length;
  return el(
    "pre",
    { class: "source", tabindex: "0", "aria-label": "source" },
    shown.map(({ at, line }) => {
      const here = at >= begin && at <= last;
      return el(
        "span",
        { class: here ? "here" : "", "aria-current": here ? "true" : undefined },
        el("i", { "aria-hidden": "true" }, String(at).padStart(digits)),
        coloured(line),
        "\n",
      );
    }),
  );
}

/**
 * A line as elements.
 * @param {Source["coloured"][number]} line
 */
function coloured(line) {
  return el(
    "code",
    {},
    line.map(([kind, text]) => (KINDS.has(kind) ? el("b", { class: kind }, text) : text)),
  );
}

/**
 * The whole panel of a call: where it stands, its lines, who called it, and what is to be known of the text.
 * @param {Call | null} call
 */
export function sourcePanel(call) {
  if (!call)
    return [
      el("h3", {}, "Source"),
      el("p", { class: "quiet" }, "Choose a call in the graph: its source is shown here."),
    ];
  const { site, source } = call;
  return [
    el("h3", {}, `${call.function} of ${rankName(call.rank)}`),
    el(
      "p",
      { class: "mono" },
      site.file ? `${site.file}:${site.line}` : site.text,
      site.function ? ` in ${site.function}` : "",
    ),
    source?.note ? el("p", { class: "warned" }, source.note) : null,
    source
      ? sourceLines(source)
      : el(
          "p",
          { class: "quiet" },
          site.file
            ? "The text of this file is neither in the run nor on this machine."
            : "The record has no source line for this call.",
        ),
    site.callers.length
      ? el(
          "p",
          { class: "quiet mono" },
          site.callers.slice(0, 8).map((c) => el("span", { class: "caller" }, `called from ${c.text}`)),
        )
      : null,
  ];
}
