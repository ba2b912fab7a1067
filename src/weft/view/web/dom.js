// Elements out of data. Text is only ever set as text: nothing out of a record becomes markup.

export const byId = (id) => document.getElementById(id);

/** An element with properties (class, attributes, on... handlers) and children (elements or texts). */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(
    ...children
      .flat()
      .filter((child) => child !== null && child !== undefined)
      .map(asNode),
  );
  return made;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(shown(String(child)));
}

/** Text without the characters that would act on the lines around it (directions of writing, controls). */
export function shown(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
}

export function replace(parent, ...children) {
  parent.replaceChildren(
    ...children
      .flat()
      .filter((child) => child !== null && child !== undefined)
      .map(asNode),
  );
}

/** Says something to those who listen to the page. */
export function announce(text) {
  byId("status").textContent = shown(text);
}

const SAID = 2600; // ms that a word stays
let gone = 0;

/** Says something to everybody: why a key did nothing, what was copied. */
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

/** A table whose columns can be sorted: heads are [title, isNumber], rows are {cells, values, go}. */
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

function bodyCell(row, cell, column, heads, go) {
  const content =
    column === 0 && go && row.go
      ? el("button", { type: "button", class: "row-go", onclick: () => go(row.go) }, cell)
      : cell;
  return el(
    column === 0 ? "th" : "td",
    { class: heads[column][1] ? "n" : "", scope: column === 0 ? "row" : undefined },
    content,
  );
}
