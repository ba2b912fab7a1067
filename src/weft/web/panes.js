// The parts of the page: side by side where there is room, one at a time where there is not; edges that can be moved.

import { byId, el, replace } from "weft/dom.js";

/** @import { Page } from "weft/main.js" */
/** @import { State } from "weft/state.js" */

const PANES = [
  ["findings", "Findings"],
  ["graph", "Graph"],
  ["details", "Call"],
  ["tables", "Tables"],
];
const STEP = 24; // pixels of an arrow key on an edge
/** @type {Record<string, number>} */
const STEPS = { ArrowLeft: STEP, ArrowUp: STEP, ArrowRight: -STEP, ArrowDown: -STEP };

export class Panes {
  /**
   * @param {State} state
   * @param {Page} actions
   */
  constructor(state, actions) {
    this.state = state;
    this.actions = actions;
    replace(
      byId("panes"),
      PANES.map(([name, title]) =>
        el("button", { type: "button", "data-pane": name, onclick: () => this.show(name) }, title),
      ),
    );
    grip(byId("details-grip"), byId("details"), "width", "--details", "Width of the panel of the chosen call");
    grip(byId("tables-grip"), byId("tables"), "height", "--tables", "Height of the tables");
    this.mark();
    this.chosen("");
  }

  get narrow() {
    return matchMedia("(max-width: 760px)").matches;
  }

  /** @param {string} name */
  show(name) {
    if (name === "tables" && !this.state.tab) this.actions.tab("profile");
    document.body.dataset.pane = name;
    this.mark();
  }

  mark() {
    for (const button of byId("panes").querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.pane === document.body.dataset.pane));
  }

  /** @param {number} findings */
  counted(findings) {
    this.button("findings").textContent = findings ? `Findings (${findings})` : "Findings";
  }

  /**
   * Says what is chosen; with nothing chosen its pane is left.
   * @param {string} word
   */
  chosen(word) {
    this.button("details").textContent = word || "Call";
    this.button("details").disabled = !word;
    byId("details-grip").hidden = !word;
    if (!word && document.body.dataset.pane === "details") this.show("graph");
  }

  /** @param {string} name */
  button(name) {
    return /** @type {HTMLButtonElement} */ (byId("panes").querySelector(`[data-pane="${name}"]`));
  }
}

/**
 * An edge that is dragged, or moved with the arrow keys; how far it was moved is kept.
 * @param {HTMLElement} edge
 * @param {HTMLElement} panel
 * @param {"width" | "height"} size
 * @param {string} property
 * @param {string} title
 */
function grip(edge, panel, size, property, title) {
  const root = document.documentElement;
  const upright = size === "width";
  /** @param {number} pixels */
  const set = (pixels) => {
    const most = (upright ? innerWidth : innerHeight) * 0.75;
    root.style.setProperty(property, `${Math.round(Math.max(160, Math.min(most, pixels)))}px`);
    try {
      localStorage.setItem(`weft${property}`, root.style.getPropertyValue(property));
    } catch {
      /* it lasts as long as the page then */
    }
  };
  try {
    const kept = localStorage.getItem(`weft${property}`) ?? "";
    if (/^\d+px$/.test(kept)) root.style.setProperty(property, kept);
  } catch {
    /* nothing is kept */
  }
  for (const [name, value] of Object.entries({
    role: "separator",
    tabindex: "0",
    "aria-label": title,
    "aria-orientation": upright ? "vertical" : "horizontal",
    title,
  }))
    edge.setAttribute(name, value);
  edge.addEventListener("keydown", (event) => {
    const by = STEPS[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    set(panel.getBoundingClientRect()[size] + by);
  });
  edge.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    edge.setPointerCapture(event.pointerId);
    const begun = [upright ? event.clientX : event.clientY, panel.getBoundingClientRect()[size]];
    /** @param {PointerEvent} e */
    const moved = (e) => set(begun[1] + begun[0] - (upright ? e.clientX : e.clientY));
    edge.addEventListener("pointermove", moved);
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", moved), { once: true });
  });
}
