// Times and numbers for people.

/** @type {[factor: number, unit: string][]} */
const UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];

/**
 * A duration with three digits that count: 1.25 ms.
 * @param {number | null | undefined} ns
 */
export function duration(ns) {
  if (ns === null || ns === undefined) return "never returned";
  const size = Math.abs(ns);
  for (const [factor, unit] of UNITS) {
    if (size >= factor * 0.9995) return `${digits(ns / factor)} ${unit}`;
  }
  return `${digits(ns)} ns`;
}

/** @param {number} value */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 100) return value.toFixed(0);
  return String(Number(value.toPrecision(3)));
}

/**
 * A time since the run's first call, exact to the nanosecond: 1.234567890 s.
 * @param {number} ns
 */
export function exact(ns) {
  const negative = ns < 0;
  const whole = BigInt(Math.round(Math.abs(ns)));
  const second = 1000000000n;
  return `${negative ? "-" : ""}${whole / second}.${String(whole % second).padStart(9, "0")} s`;
}

/** @param {number} value */
export const count = (value) => Number(value).toLocaleString("en-US");
/**
 * @param {number} value
 * @param {string} noun
 */
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** @param {number} value */
export function bytes(value) {
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let size = value;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${digits(size)} ${units[unit]}`;
}

/**
 * Round places for the ticks of an axis from `from` to `to`, about `most` of them, and their step.
 * @param {number} from
 * @param {number} to
 * @param {number} most
 */
export function ticks(from, to, most) {
  const raw = (to - from) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? power * 10;
  /** @type {number[]} */
  const found = [];
  for (let k = Math.ceil(from / step); k * step <= to; k += 1) found.push(k * step);
  return { step, places: found };
}

/**
 * A tick's label, with as many digits as its neighbours need.
 * @param {number} ns
 * @param {number} step
 */
export function tickLabel(ns, step) {
  if (ns === 0) return "0";
  const [factor, unit] = UNITS.find(([f]) => Math.abs(ns) >= f) ?? UNITS[3];
  const places = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / factor) - 1e-9)));
  return `${(ns / factor).toFixed(places)} ${unit}`;
}
