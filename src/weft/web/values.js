// The values of two runs, one below the other: their moments, what differs, and the error over one array.

import { values as api } from "weft/api.js";
import { byId, el, messageOf, replace, sortedTable } from "weft/dom.js";
import { ErrorPicture } from "weft/field.js";
import { css, errorText, ramp, takeRamp, theme } from "weft/ramp.js";
import { Moments } from "weft/strip.js";
import { startTheme, switchTheme } from "weft/theme.js";
import { count } from "weft/units.js";

/** @import { Moment, Reached, Values } from "weft/sent" */

const LEAST = 4; // moments that a window shows
const REACH = 40; // moments on each side of one that is gone to
/** @type {[name: string, words: string][]} */
const LEGEND = [
  ["alike", "alike"],
  ["rounded", "alike but for rounding"],
  ["alone", "only in this run"],
  ["unseen", "not compared"],
  ["reached", "behind a rank's first difference"],
];

/** @param {string} id */
const canvasOf = (id) => /** @type {HTMLCanvasElement} */ (byId(id));

export class ValuesPage {
  /** @type {Values} there is none before start() */
  told;
  /** @type {Moments} */
  strip;
  /** @type {Moment | null} */
  moment = null;
  /** Which of the differences is chosen. */
  chosen = 0;
  field = new ErrorPicture(canvasOf("field"), api);
  busy = 0;

  async start() {
    startTheme(() => this.repaint());
    byId("theme").addEventListener("click", () => switchTheme(() => this.repaint()));
    this.buttons();
    replace(byId("findings"), el("p", { class: "quiet" }, "Weft compares the values …"));
    this.told = await api.told();
    takeRamp(this.told.ramp);
    const names = this.told.names.join(" and ");
    byId("title").textContent = `The values of ${names}`;
    document.title = `${names} – Weft`;
    const calls = byId("calls");
    calls.hidden = !this.told.calls;
    calls.setAttribute("href", `/beside?${new URLSearchParams({ of: this.told.names[1] })}`);
    this.strip = new Moments(canvasOf("strip"), api, this.told);
    this.list();
    this.legend();
    this.keys();
    this.listen();
    if (this.told.reached.length) await this.go(0);
    else await this.choose(this.told.parting ?? 0, true);
    document.body.dataset.ready = "yes";
  }

  /** Where the difference reached which probe and rank first, in order: a click brings it into the middle. */
  list() {
    const { reached, texts, alike } = this.told;
    const heading = reached.length ? "How the difference spread" : alike ? "No value differs" : "Where they part";
    replace(
      byId("findings"),
      el("h2", {}, heading),
      el(
        "ol",
        {},
        reached.map((one, i) => el("li", {}, this.difference(one, i))),
      ),
      el(
        "div",
        { class: "texts small wraps" },
        texts.map((text) => el("p", {}, text.trim())),
      ),
    );
  }

  /**
   * @param {Reached} one
   * @param {number} i
   */
  difference(one, i) {
    return el(
      "button",
      { type: "button", class: one.first ? "error" : "warning", onclick: () => this.go(i) },
      el("span", { class: "kind" }, one.ranks),
      el("span", { class: "sure" }, one.first ? " first" : " later"),
      el("div", { class: "small" }, one.probe),
      el("div", { class: "where" }, one.iterations),
      el("div", { class: "mono small" }, one.text),
    );
  }

  /**
   * A difference in the middle.
   * @param {number} i
   */
  async go(i) {
    const one = this.told.reached[i];
    if (!one) return;
    this.chosen = i;
    byId("findings")
      .querySelectorAll("ol button")
      .forEach((button, n) => button.setAttribute("aria-current", String(n === i)));
    await this.choose(one.at, true);
  }

  /**
   * Another moment; it comes into the middle, or only into the window.
   * @param {number} at
   * @param {boolean} middle
   */
  async choose(at, middle = false) {
    const { strip, told } = this;
    if (!told.moments) return;
    strip.chosen = Math.max(0, Math.min(told.moments - 1, at));
    const wide = strip.to - strip.from;
    if (middle) {
      const reach = Math.min(REACH, Math.max(LEAST, told.moments));
      strip.show(strip.chosen + 0.5 - reach, strip.chosen + 0.5 + reach);
    } else if (strip.chosen < strip.from || strip.chosen + 1 > strip.to) {
      strip.show(strip.chosen + 0.5 - wide / 2, strip.chosen + 0.5 + wide / 2);
    } else strip.paint();
    const wanted = strip.chosen;
    this.busy += 1;
    try {
      const found = await api.moment(wanted);
      if (strip.chosen === wanted) await this.show(found);
    } finally {
      this.busy -= 1;
    }
  }

  /** @param {Moment} moment */
  async show(moment) {
    this.moment = moment;
    byId("moment").textContent = moment.title;
    const where = moment.reference && !moment.title.includes(moment.reference) ? moment.reference : "";
    replace(
      byId("said-of"),
      moment.texts.map((text) => el("p", {}, text)),
      where ? el("p", { class: "quiet" }, `in the reference at ${where}`) : null,
    );
    this.numbers(moment);
    const layer = moment.layers.find((one) => one.first) ?? moment.layers[0];
    byId("shown").dataset.drawn = layer ? "yes" : "no";
    if (layer) await this.field.show(moment.at, layer);
    else this.field.layer = null;
    this.choices();
    await this.point();
  }

  /** @param {Moment} moment */
  numbers(moment) {
    /** @type {[string, boolean][]} */
    const heads = [
      ["rank", false],
      ["value", false],
      ["reference", true],
      ["run", true],
      ["apart", true],
      ["units", true],
    ];
    const rows = moment.numbers.map((cells) => ({ cells, values: cells }));
    replace(byId("numbers"), rows.length ? sortedTable("The numbers of this moment", heads, rows) : null);
  }

  /** What of the array is shown: whose, which dimensions, which slice, in what unit. */
  choices() {
    const { field, moment } = this;
    const layer = field.layer;
    if (!layer || !moment) {
      replace(byId("choices"));
      return;
    }
    const dims = layer.whole.map((_, d) => d);
    replace(
      byId("choices"),
      moment.layers.length > 1 ? this.layers(moment) : null,
      dims.length > 2 ? this.planes(dims) : null,
      dims.filter((d) => !field.axes.includes(d)).map((d) => this.slice(d)),
      this.unit(),
      el("button", { type: "button", title: "The largest error ( w )", onclick: () => this.worst() }, "Largest"),
      el("button", { type: "button", title: "The whole array ( 0 )", onclick: () => this.whole() }, "Whole"),
    );
  }

  /** @param {Moment} moment */
  layers(moment) {
    const pick = el(
      "select",
      { "aria-label": "Whose array" },
      moment.layers.map((one) => el("option", { selected: one === this.field.layer }, one.name)),
    );
    pick.addEventListener("change", () => this.drawn(this.field.show(moment.at, moment.layers[pick.selectedIndex])));
    return pick;
  }

  /** @param {number[]} dims */
  planes(dims) {
    const pairs = dims.flatMap((a) => dims.filter((b) => b > a).map((b) => [a, b]));
    const pick = el(
      "select",
      { "aria-label": "Dimensions of the picture" },
      pairs.map((pair) =>
        el(
          "option",
          { selected: String(pair) === String(this.field.axes) },
          `dimensions ${pair.map((d) => d + 1).join(" and ")}`,
        ),
      ),
    );
    pick.addEventListener("change", () => {
      this.field.axes = pairs[pick.selectedIndex];
      this.whole();
    });
    return pick;
  }

  /** @param {number} axis */
  slice(axis) {
    const { field } = this;
    const [first, end] = field.layer?.whole[axis] ?? [0, 1];
    const base = field.layer?.base ?? 0;
    const range = el("input", { type: "range", min: first, max: end - 1, value: field.cursor[axis], step: 1 });
    const words = el("span", { class: "mono" }, String(field.cursor[axis] + base));
    range.addEventListener("input", () => {
      words.textContent = String(Number(range.value) + base);
      field.slice(axis, Number(range.value)).then(() => this.point());
    });
    return el("label", {}, `slice of dimension ${axis + 1} `, range, " ", words);
  }

  unit() {
    const tick = el("input", { type: "checkbox", checked: this.field.unit === "ulps" });
    tick.addEventListener("change", () => this.ulps());
    return el("label", { title: "Units in the last place ( u )" }, tick, " units in the last place");
  }

  /** @param {Promise<void>} made */
  async drawn(made) {
    this.busy += 1;
    try {
      await made;
      this.choices();
      await this.point();
    } finally {
      this.busy -= 1;
    }
  }

  ulps() {
    this.field.unit = this.field.unit === "ulps" ? "distance" : "ulps";
    this.drawn(this.field.load());
  }

  worst() {
    this.drawn(this.field.worst());
  }

  whole() {
    this.field.whole();
    this.drawn(this.field.load());
  }

  /** Says what the cursor points at. */
  async point() {
    const { field, moment } = this;
    if (!field.layer || !moment) {
      byId("pointed").textContent = "";
      return;
    }
    const wanted = String(field.cursor);
    const found = await api.element({ at: moment.at, layer: field.layer.number, index: field.cursor.join(",") });
    if (String(field.cursor) !== wanted) return;
    const { cell, elements } = field.pointed;
    const [one, two, distance, units] = found.numbers ?? [];
    const sides = found.ranks?.map((rank) => `rank ${rank}`) ?? [];
    const near = elements > 1 && cell >= 0 ? `; at most ${errorText(cell)} in its cell of ${count(elements)}` : "";
    const apart = units ? `${distance} apart, ${units} units in the last place` : `${distance} apart`;
    const said = `${found.text}: ${two} (${sides[1]}), in the reference ${one} (${sides[0]}), ${apart}${near}`;
    byId("pointed").textContent = found.numbers ? said : found.text;
  }

  repaint() {
    if (!this.strip) return; // the values are not here yet
    this.strip.paint();
    this.field.paint();
    this.legend();
  }

  legend() {
    const { errors: range, alike } = this.told;
    const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => {
      const mark = el("span", { class: "swatch" });
      mark.style.background = css(ramp(share, theme()));
      return mark;
    });
    const how = range ? `differs by ${errorText(range[0])} to ${errorText(range[1])}` : "differs";
    replace(
      byId("legend"),
      LEGEND.map(([name, words]) => el("li", {}, el("span", { class: `swatch valued-${name}` }), words)),
      alike ? null : el("li", {}, range && range[0] < range[1] ? steps : steps[4], how),
    );
  }

  /** @param {number} factor */
  zoom(factor) {
    const { strip, told } = this;
    const middle = strip.chosen + 0.5;
    const half = Math.max(LEAST / 2, Math.min(told.moments, ((strip.to - strip.from) / 2) * factor));
    strip.show(middle - half, middle + half);
  }

  /** @param {number} by */
  next(by) {
    this.go(Math.max(0, Math.min(this.told.reached.length - 1, this.chosen + by)));
  }

  buttons() {
    /** @type {[sign: string, title: string, action: () => void][]} */
    const all = [
      ["−", "More moments ( - )", () => this.zoom(1 / 0.6)],
      ["+", "Fewer moments ( + )", () => this.zoom(0.6)],
      ["‹", "The moment before ( ← )", () => this.choose(this.strip.chosen - 1)],
      ["›", "The next moment ( → )", () => this.choose(this.strip.chosen + 1)],
      ["To the first difference", "Centre the first difference ( Enter )", () => this.go(0)],
    ];
    replace(
      byId("moves"),
      all.map(([sign, title, onclick]) =>
        el("button", { type: "button", title, "aria-label": title.split(" (")[0], onclick }, sign),
      ),
    );
  }

  keys() {
    const { field } = this;
    /** @param {number} by */
    const slice = (by) => {
      const axis = field.window.findIndex((_, d) => !field.axes.includes(d));
      if (axis >= 0) this.drawn(field.slice(axis, field.cursor[axis] + by));
    };
    /** @type {Record<string, () => void>} */
    const everywhere = {
      Enter: () => this.go(0),
      "]": () => this.next(1),
      "[": () => this.next(-1),
      u: () => this.ulps(),
      w: () => this.worst(),
      0: () => this.whole(),
      l: () => switchTheme(() => this.repaint()),
      PageUp: () => slice(-1),
      PageDown: () => slice(1),
      ArrowLeft: () => this.choose(this.strip.chosen - 1),
      ArrowRight: () => this.choose(this.strip.chosen + 1),
      "+": () => this.zoom(0.6),
      "-": () => this.zoom(1 / 0.6),
    };
    /** @type {(rows: number, columns: number) => () => void} */
    const step = (rows, columns) => () => {
      field.step(rows, columns);
      this.point();
    };
    /** @type {Record<string, () => void>} */
    const inField = {
      ArrowLeft: step(0, -1),
      ArrowRight: step(0, 1),
      ArrowUp: step(-1, 0),
      ArrowDown: step(1, 0),
      "+": () => this.drawn(field.zoom(0.5)),
      "-": () => this.drawn(field.zoom(2)),
    };
    document.addEventListener("keydown", (event) => {
      const at = /** @type {HTMLElement} */ (event.target);
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|SELECT/.test(at.tagName)) return;
      if (event.key === "Enter" && /BUTTON|^A$/.test(at.tagName)) return;
      const act = (at.id === "field" && inField[event.key]) || everywhere[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  listen() {
    const { strip, field } = this;
    strip.canvas.addEventListener("click", (event) => this.choose(strip.at(event.offsetX)));
    /** @type {(canvas: HTMLCanvasElement, zoom: (factor: number) => void) => void} */
    const wheel = (canvas, zoom) =>
      canvas.addEventListener(
        "wheel",
        (event) => {
          event.preventDefault();
          zoom(event.deltaY > 0 ? 1.25 : 0.8);
        },
        { passive: false },
      );
    wheel(strip.canvas, (factor) => this.zoom(factor));
    wheel(field.canvas, (factor) => this.drawn(field.zoom(factor)));
    field.canvas.addEventListener("click", (event) => {
      const element = field.elementAt(event.offsetX, event.offsetY);
      if (!element) return;
      field.cursor = element;
      field.paint();
      this.point();
    });
  }
}

const page = new ValuesPage();
page.start().catch((error) => {
  replace(byId("findings"), el("p", { class: "failed" }, `The values cannot be compared: ${messageOf(error)}`));
  document.body.dataset.ready = "yes";
});

export { page };
