// Elements out of data. Text is only ever set as text: nothing out of a record becomes markup.

/**
 * Elements of the page that are more than any element.
 * @typedef {{
 *   filter: HTMLInputElement, grouping: HTMLSelectElement, graph: HTMLCanvasElement, minimap: HTMLCanvasElement,
 *   keys: HTMLDialogElement,
 * }} Special
 */

/** @typedef {string | number | Node | null | undefined} Leaf */
/** @typedef {Leaf | Leaf[]} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>} Properties */

/**
 * @template {string} Name
 * @typedef {Name extends keyof Special ? Special[Name] : HTMLElement} Named
 */

/**
 * An element of the page by its name.
 * @template {string} Name
 * @param {Name} id
 */
export const byId = (id) => /** @type {Named<Name>} */ (document.getElementById(id));

/**
 * An element with properties (class, attributes, on... handlers) and children (elements or texts).
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Properties} properties
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = String(value);
    else if (typeof value === "function") made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...nodes(children));
  return made;
}

/** @param {Child[]} children */
function nodes(children) {
  const some = children.flat().filter((child) => child !== null && child !== undefined);
  return some.map((child) => (child instanceof Node ? child : document.createTextNode(shown(String(child)))));
}

/**
 * What is drawn with on a canvas.
 * @param {HTMLCanvasElement} canvas
 */
export function drawing(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser does not let the page draw");
  return context;
}

/**
 * The words of what was thrown.
 * @param {unknown} error
 */
export function messageOf(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * Text without the characters that would act on the lines around it (directions of writing, controls).
 * @param {string} text
 */
export function shown(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

/**
 * @param {Element} parent
 * @param {...Child} children
 */
export function replace(parent, ...children) {
  parent.replaceChildren(...nodes(children));
}

/**
 * Says something to those who listen to the page.
 * @param {string} text
 */
export function announce(text) {
  byId("status").textContent = shown(text);
}

const SAID = 2600; // ms that a word stays
let gone = 0;

/**
 * Says something to everybody: why a key did nothing, what was copied.
 * @param {string} text
 */
export function say(text) {
  announce(text);
  const box = byId("said");
  box.textContent = shown(text);
  box.hidden = false;
  clearTimeout(gone);
  gone = setTimeout(() => {
    box.hidden = true;
  }, SAID);
}

/**
 * A row of a table: what is shown, what it is sorted by, and what a click on it means.
 * @template Go
 * @typedef {{ cells: string[], values: (string | number)[], go?: Go }} Row
 */

/** @typedef {[title: string, number: boolean]} HeadCell */

/**
 * A table whose columns can be sorted.
 * @template Go
 * @param {string} caption
 * @param {HeadCell[]} heads
 * @param {Row<Go>[]} rows
 * @param {(go: Go) => void} [go]
 */
export function sortedTable(caption, heads, rows, go) {
  const body = el("tbody");
  let order = { column: -1, down: true };
  const fill = () => {
    const sorted = [...rows];
    if (order.column >= 0) {
      const sign = order.down ? -1 : 1;
      sorted.sort((a, b) =>
        a.values[order.column] < b.values[order.column]
          ? -sign
          : a.values[order.column] > b.values[order.column]
            ? sign
            : 0,
      );
    }
    replace(
      body,
      sorted.map((row) =>
        el(
          "tr",
          {},
          row.cells.map((cell, i) => bodyCell(row, cell, i, heads, go)),
        ),
      ),
    );
  };
  /** @param {number} column */
  const sortBy = (column) => {
    order = { column, down: order.column === column ? !order.down : heads[column][1] };
    fill();
    head
      .querySelectorAll("th")
      .forEach((th, i) =>
        th.setAttribute("aria-sort", i === column ? (order.down ? "descending" : "ascending") : "none"),
      );
  };
  const head = el(
    "tr",
    {},
    heads.map(([title, number], i) =>
      el(
        "th",
        { scope: "col", class: number ? "n" : "", "aria-sort": "none" },
        el("button", { type: "button", onclick: () => sortBy(i) }, title),
      ),
    ),
  );
  fill();
  return el("table", { class: "sorted" }, el("caption", { class: "unseen" }, caption), el("thead", {}, head), body);
}

/**
 * @template Go
 * @param {Row<Go>} row
 * @param {string} cell
 * @param {number} column
 * @param {HeadCell[]} heads
 * @param {((go: Go) => void) | undefined} go
 */
function bodyCell(row, cell, column, heads, go) {
  const { go: meant } = row;
  const content =
    column === 0 && go && meant
      ? el("button", { type: "button", class: "row-go", onclick: () => go(meant) }, cell)
      : cell;
  return el(
    column === 0 ? "th" : "td",
    { class: heads[column][1] ? "n" : "", scope: column === 0 ? "row" : undefined },
    content,
  );
}
