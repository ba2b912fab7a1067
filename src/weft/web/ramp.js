// How large an error is, as a colour: by its logarithm, from the least to the largest.

/** @typedef {[r: number, g: number, b: number]} Colour */

/** @type {Record<string, number[][]>} from the least error to the largest, by the page's theme */
const known = {};

/**
 * Takes the colours that the server names (compare/values/error_svg.py), which the notebook's pictures have, too.
 * @param {Record<string, number[][]>} colours
 */
export const takeRamp = (colours) => Object.assign(known, colours);

/**
 * The colour of a share from 0 to 1.
 * @param {number} share
 * @param {string | undefined} theme
 * @returns {Colour}
 */
export function ramp(share, theme) {
  const stops = known[theme ?? "light"];
  const at = Math.max(0, Math.min(1, share)) * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const [a, b] = [stops[i], stops[i + 1]];
  const t = at - i;
  /** @param {number} k */
  const mixed = (k) => Math.round(a[k] + (b[k] - a[k]) * t);
  return [mixed(0), mixed(1), mixed(2)];
}

/**
 * Where an error lies between the least and the largest, by its logarithm.
 * @param {number} error
 * @param {[least: number, most: number] | null} range
 */
export function shareOf(error, range) {
  if (!range || error === Infinity) return 1;
  const [low, high] = range.map(Math.log10);
  return high > low ? Math.max(0, Math.min(1, (Math.log10(error) - low) / (high - low))) : 1;
}

/**
 * An error in few digits: 0.0012, 3.4e-9.
 * @param {number} error
 */
export function errorText(error) {
  if (error === Infinity) return "no number";
  if (error === 0) return "0";
  return error >= 1e-3 && error < 1e5 ? String(Number(error.toPrecision(3))) : error.toExponential(1);
}

/** @param {Colour} colour */
export const css = ([r, g, b]) => `rgb(${r}, ${g}, ${b})`;

/** @returns {string | undefined} */
export const theme = () => document.documentElement.dataset.theme;

/**
 * Oblique lines over a rectangle: nothing is known there.
 * @param {CanvasRenderingContext2D} context
 * @param {{ x: number, y: number, width: number, height: number }} box
 * @param {string} colour
 */
export function hatch(context, { x, y, width, height }, colour) {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = -height; at < width; at += 6) {
    context.moveTo(x + at, y + height);
    context.lineTo(x + at + height, y);
  }
  context.stroke();
  context.restore();
}
