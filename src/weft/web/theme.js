// Light and dark, and the colours that the canvases draw with.

/** @import { Palette } from "weft/drawn" */

const NAMES = [
  "paper",
  "panel",
  "ink",
  "quiet",
  "line",
  "track",
  "hover",
  "accent",
  "error",
  "warning",
  "note",
  "good",
  "shade",
  "send",
  "receive",
  "wait",
  "collective",
  "one-sided",
  "io",
  "probe",
  "other",
  "past",
  "future",
  "message",
  "late",
];

const DARK = "#14181d";

/** @type {Palette | null} */
let known = null;

/** @returns {Palette} */
export function colours() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    known = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }
  return known;
}

/**
 * A colour as [r, g, b].
 * @param {string} text
 */
export function rgb(text) {
  const hex = text.replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

/**
 * A colour with an opacity.
 * @param {string} text
 * @param {number} opacity
 */
export function thin(text, opacity) {
  const [r, g, b] = rgb(text);
  return `rgba(${r}, ${g}, ${b}, ${opacity})`;
}

/**
 * The colour for text on a colour: the one that stands out more (WCAG's contrast).
 * @param {string} text
 */
export function textOn(text) {
  const light = luminance(text);
  return (light + 0.05) / (luminance(DARK) + 0.05) > 1.05 / (light + 0.05) ? DARK : "#ffffff";
}

/** @param {string} text */
function luminance(text) {
  const [r, g, b] = rgb(text).map((value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function stored() {
  try {
    return localStorage.getItem("weft-theme");
  } catch {
    return null;
  }
}

/** @param {string} theme */
function apply(theme) {
  document.documentElement.dataset.theme = theme;
  known = null;
}

/**
 * Follows the system until the person chooses; `changed` is called after every change.
 * @param {() => void} changed
 */
export function startTheme(changed) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  apply(stored() ?? (system.matches ? "dark" : "light"));
  system.addEventListener("change", () => {
    if (stored()) return;
    apply(system.matches ? "dark" : "light");
    changed();
  });
}

/** @param {() => void} changed */
export function switchTheme(changed) {
  const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("weft-theme", next);
  } catch {
    /* it lasts as long as the page then */
  }
  apply(next);
  changed();
}
