// Every key of the page: what it does, and the list of all of them.

import { byId, el, replace } from "weft/dom.js";

/** @import { Page } from "weft/main.js" */

/**
 * [keys, words, action]: the one table that is acted on and shown.
 * @param {Page} actions
 * @returns {[title: string, rows: [keys: string[], words: string, action: () => void][]][]}
 */
export function table(actions) {
  return [
    [
      "Findings",
      [
        [["Enter"], "fly to the chosen finding", () => actions.flyAgain()],
        [["]"], "next finding", () => actions.finding(1)],
        [["["], "previous finding", () => actions.finding(-1)],
        [["e"], "to the list of findings", () => actions.focusFindings()],
      ],
    ],
    [
      "Move",
      [
        [["ArrowLeft", "a"], "earlier", () => actions.pan(-0.2)],
        [["ArrowRight", "d"], "later", () => actions.pan(0.2)],
        [["+", "=", "w"], "closer", () => actions.zoom(0.6)],
        [["-", "s"], "further away", () => actions.zoom(1 / 0.6)],
        [["f", "0"], "the whole run", () => actions.all()],
        [["Home"], "to the beginning", () => actions.end(-1)],
        [["End"], "to the end", () => actions.end(1)],
        [["Backspace", "u"], "back to the previous time window", () => actions.undo()],
        [["U"], "forward again", () => actions.redo()],
        [["}"], "higher rows", () => actions.rowHeight(1.25)],
        [["{"], "lower rows", () => actions.rowHeight(0.8)],
        [["PageDown"], "rows below", () => actions.scroll(0.8)],
        [["PageUp"], "rows above", () => actions.scroll(-0.8)],
      ],
    ],
    [
      "Calls",
      [
        [["."], "next call of the row", () => actions.step(1)],
        [[","], "previous call of the row", () => actions.step(-1)],
        [["ArrowDown"], "the row below", () => actions.row(1)],
        [["ArrowUp"], "the row above", () => actions.row(-1)],
        [["p"], "to the partner; from a message to its send", () => actions.partner()],
        [["z"], "zoom to the chosen call or message", () => actions.frame()],
        [["h"], "shade its past and future", () => actions.around()],
        [["r"], "replay to it", () => actions.replayHere()],
        [["b"], "stop a replay there, or no longer", () => actions.stopHere()],
        [["y"], "copy the command that replays to it", () => actions.copyReplay()],
        [["Escape"], "choose nothing", () => actions.escape()],
      ],
    ],
    [
      "Find and show",
      [
        [["/"], "filter", () => byId("filter").focus()],
        [["n"], "next call that fits the filter", () => actions.next(false)],
        [["N"], "previous one", () => actions.next(true)],
        [["t"], "time, folded time, logical time", () => actions.nextAxis()],
        [["g"], "next grouping of rows", () => actions.nextGrouping()],
        [["c"], "fold or unfold all groups", () => actions.foldAll()],
        [["m"], "set or take a mark in the middle", () => actions.mark()],
        [["1"], "table of time by function, rank and line", () => actions.tab("profile")],
        [["2"], "table of messages from rank to rank", () => actions.tab("matrix")],
        [["3"], "table of waiting by who caused it", () => actions.tab("waits")],
        [["4"], "source around the chosen call", () => actions.tab("source")],
        [["5", "i"], "legend: what is drawn", () => actions.tab("legend")],
        [["6"], "replay: where the ranks stand, what they wrote", () => actions.tab("replay")],
        [["l"], "light or dark", () => actions.theme()],
        [["?"], "these keys", () => actions.help()],
      ],
    ],
  ];
}

const MOUSE = [
  ["wheel", "closer, further away"],
  ["shift + wheel, drag", "earlier, later"],
  ["alt + wheel", "rows above, below"],
  ["ctrl + wheel", "higher, lower rows"],
  ["drag in the ruler", "zoom to a stretch"],
  ["shift + drag", "measure a time"],
  ["click", "choose a call or a message"],
  ["double click", "zoom to a call"],
  ["two fingers", "closer, further away"],
];

/** @type {Record<string, string>} */
const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Escape: "Esc" };

/** @param {Page} actions */
export function startKeys(actions) {
  const groups = table(actions);
  const byKey = new Map(
    groups.flatMap(([, rows]) => rows.flatMap(([keys, , action]) => keys.map((key) => [key, action]))),
  );
  const dialog = byId("keys");
  replace(
    dialog,
    el("h2", {}, "Keys"),
    el("p", { class: "quiet wraps" }, "Each is a button too."),
    el(
      "div",
      { class: "columns" },
      groups.map(([title, rows]) =>
        el(
          "section",
          {},
          el("h3", {}, title),
          el(
            "table",
            {},
            el(
              "tbody",
              {},
              rows.map(([keys, words, action]) =>
                el(
                  "tr",
                  {},
                  el(
                    "td",
                    {},
                    keys.map((key) => el("kbd", {}, NAMES[key] ?? key)),
                  ),
                  el(
                    "td",
                    {},
                    el(
                      "button",
                      {
                        type: "button",
                        class: "plain",
                        onclick: () => {
                          dialog.close();
                          action();
                        },
                      },
                      words,
                    ),
                  ),
                ),
              ),
            ),
          ),
        ),
      ),
      el(
        "section",
        {},
        el("h3", {}, "Mouse"),
        el(
          "table",
          {},
          el(
            "tbody",
            {},
            MOUSE.map(([how, words]) => el("tr", {}, el("td", {}, el("kbd", {}, how)), el("td", {}, words))),
          ),
        ),
      ),
    ),
    el("form", { method: "dialog" }, el("button", {}, "Close")),
  );
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    const target = event.target instanceof Element ? event.target : document.body;
    const field = /** @type {HTMLElement | null} */ (target.closest("input, select, textarea"));
    if (field) {
      if (event.key === "Escape") {
        field.blur();
        byId("graph").focus();
      }
      return;
    }
    if (["Enter", " "].includes(event.key) && target.closest("button, a")) return;
    const action = byKey.get(event.key);
    if (!action) return;
    event.preventDefault();
    action();
  });
}
