// What the page asks for: of the server it came from, or of the data in its own file (an exported page).

import { unpack } from "weft/packed.js";

/** @import { Api, Beside, ValuesApi } from "weft/sent" */

/** @typedef {{ [name: string]: string | number }} Given */

/**
 * @param {string} name
 * @param {Given} given
 * @param {AbortSignal} [signal]
 */
async function asked(name, given, signal) {
  const words = new URLSearchParams(Object.entries(given).map(([key, value]) => [key, String(value)]));
  return answered(await fetch(`/api/${name}?${words}`, { signal, credentials: "same-origin" }));
}

/**
 * An answer, or what the server says against it.
 * @param {Response} answer
 */
async function answered(answer) {
  if (answer.ok) return answer;
  const text = await answer.text();
  let said = text;
  try {
    said = JSON.parse(text).error ?? text;
  } catch {
    /* a refusal is plain text */
  }
  throw new Error(said);
}

/**
 * A move of the replay: the only thing that changes anything.
 * @param {string} name
 * @param {object} given
 */
async function moved(name, given) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify(given);
  await answered(await fetch(`/api/replay/${name}`, { method: "POST", credentials: "same-origin", headers, body }));
}

/**
 * The server, asked about the run that it shows, or about one beside that.
 * @param {string} of
 * @returns {Api}
 */
export const remote = (of = "") => {
  /**
   * @param {string} name
   * @param {Given} [given]
   * @param {AbortSignal} [signal]
   */
  const about = (name, given = {}, signal = undefined) => asked(name, of ? { ...given, of } : given, signal);
  /** @type {typeof about} */
  const json = async (name, given, signal) => (await about(name, given, signal)).json();
  return answers(about, json);
};

/**
 * @param {(name: string, given: Given, signal?: AbortSignal) => Promise<Response>} asked
 * @param {(name: string, given?: Given, signal?: AbortSignal) => Promise<any>} json
 * @returns {Api}
 */
const answers = (asked, json) => ({
  exported: false,
  has: () => true,
  run: () => json("run"),
  axis: (axis) => json("axis", { axis }),
  window: async (given, signal) => unpack(await (await asked("window", { ...given }, signal)).arrayBuffer()),
  links: (given, signal) => json("links", { ...given }, signal),
  findings: (axis, patience) => json("findings", { axis, patience }),
  event: (axis, rank, event) => json("event", { axis, rank, event }),
  around: (axis, rank, event) => json("around", { axis, rank, event }),
  at: (given) => json("at", { ...given }),
  search: (given) => json("search", given),
  tables: (given) => json("tables", { ...given }),
  message: (axis, side, row) => json("message", { axis, side, row }),
  tip: (rank, event) => json("tip", { rank, event }),
  replay: (given, signal) => json("replay", given, signal),
  move: moved,
});

/**
 * Where two runs differ.
 * @param {string} other
 * @param {string} axis
 * @returns {Promise<Beside>}
 */
export const besideOf = async (other, axis) => (await asked("beside", { other, axis })).json();

/**
 * The values of two runs.
 * @type {ValuesApi}
 */
export const values = {
  told: async () => (await asked("values", {})).json(),
  strip: async (given, signal) => unpack(await (await asked("strip", { ...given }, signal)).arrayBuffer()),
  moment: async (at) => (await asked("moment", { at })).json(),
  field: async (given, signal) => unpack(await (await asked("field", { ...given }, signal)).arrayBuffer()),
  element: async (given) => (await asked("element", { ...given })).json(),
};

/**
 * The backend of this page.
 * @returns {Promise<Api>}
 */
export async function connect() {
  const data = document.getElementById("weft-data");
  if (!data) return remote();
  const { offline } = await import("weft/offline.js");
  return offline((data.textContent ?? "").trim());
}
