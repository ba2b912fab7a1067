// The calls: columns of true shares where many calls meet a pixel, boxes with labels where there is room.

import { colours, rgb, textOn, thin } from "weft/theme.js";

const CLOSED = 1;
const STACKED = 8; // pixels of height from which shares are stacked; below they are mixed into one colour

/** The columns of a window as a picture, one pixel a column; made once and then drawn at any scale. */
export function paintColumns(data, lanes, ratio, filtered) {
  const height = Math.max(1, Math.ceil(lanes.bottom * ratio));
  const canvas = new OffscreenCanvas(data.columns, height);
  const context = canvas.getContext("2d");
  const image = context.createImageData(data.columns, height);
  const pixels = new Uint32Array(image.data.buffer);
  const palette = data.classes.map((name) => rgb(colours()[name]));
  const track = rgb(colours().track);
  const boxed = new Set(data.boxed);
  lanes.lanes.forEach((lane, i) => {
    if (boxed.has(i)) return;
    const top = Math.round(lane.y * ratio);
    const tall = Math.max(1, Math.round((lane.y + lane.height) * ratio) - top);
    const paint = lane.height >= STACKED ? stack : mix;
    paint(pixels, data, i, top, tall, palette, track, filtered);
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

const packed = ([r, g, b], alpha = 255) => ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0;

function stack(pixels, data, lane, top, tall, palette, track, filtered) {
  const { columns, shares, hits } = data;
  const used = palette.length;
  const colour = palette.map((c) => packed(c));
  const pale = palette.map((c) => packed(c, 60));
  const base = packed(track);
  for (let x = 0; x < columns; x += 1) {
    const chosen = filtered && !hits[lane * columns + x] ? pale : colour;
    let y = top + tall;
    for (let c = 0; c < used; c += 1) {
      const share = shares[(lane * used + c) * columns + x];
      if (!share) continue;
      const to = Math.max(top, y - Math.max(1, Math.round((share / 255) * tall)));
      for (let k = to; k < y; k += 1) pixels[k * columns + x] = chosen[c];
      y = to;
    }
    for (let k = top; k < y; k += 1) pixels[k * columns + x] = base;
  }
}

function mix(pixels, data, lane, top, tall, palette, track, filtered) {
  const { columns, shares, hits } = data;
  const used = palette.length;
  for (let x = 0; x < columns; x += 1) {
    let [r, g, b, left] = [0, 0, 0, 255];
    for (let c = 0; c < used; c += 1) {
      const share = Math.min(left, shares[(lane * used + c) * columns + x]);
      left -= share;
      r += palette[c][0] * share; g += palette[c][1] * share; b += palette[c][2] * share;
    }
    const colour = packed([(r + track[0] * left) / 255, (g + track[1] * left) / 255, (b + track[2] * left) / 255],
      filtered && !hits[lane * columns + x] ? 60 : 255);
    for (let k = top; k < top + tall; k += 1) pixels[k * columns + x] = colour;
  }
}

/** Draws what a view shows of a window, stale or not: its columns scaled, its boxes where they are. */
export function drawTracks(context, view, part) {
  const { data, lanes, picture } = part;
  const x0 = view.x(data.from);
  const x1 = view.x(data.to);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, 0, 0, data.columns, picture.height, x0, 0, x1 - x0, picture.height / view.ratio);
  for (const i of data.boxed) {
    const lane = lanes.lanes[i];
    if (!lane) continue;
    context.fillStyle = colours().track;
    context.fillRect(Math.max(0, x0), lane.y, Math.min(view.width, x1) - Math.max(0, x0), lane.height);
  }
  drawBoxes(context, view, part);
}

function drawBoxes(context, view, { data, lanes, filtered }) {
  if (!data.start) return;
  const palette = colours();
  const names = view.run.classes;
  context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  context.textBaseline = "middle";
  for (let i = 0; i < data.start.length; i += 1) {
    const lane = lanes.lanes[data.lane[i]];
    const x = view.x(data.start[i]);
    const end = Math.min(view.x(data.end[i]), view.width + 20);
    if (!lane || end < 0 || x > view.width) continue;
    const left = Math.max(x, -20);
    const width = Math.max(1, end - left);
    const open = !(data.flags[i] & CLOSED);
    const colour = palette[names[data.class[i]]];
    context.fillStyle = filtered && !data.fits[i] ? thin(colour, 0.22) : colour;
    if (open && view.run.isLast(data, i)) openBox(context, view, lane, left, colour);
    else if (width > 5 && lane.height > 9) rounded(context, left, lane.y, width - 0.5, lane.height);
    else context.fillRect(left, lane.y, width > 2 ? width - 0.5 : width, lane.height);
    if (width > 26 && lane.height >= 11) label(context, view, data, i, lane, Math.max(0, left), Math.min(end, view.width), open);
  }
}

function rounded(context, x, y, width, height) {
  context.beginPath();
  context.roundRect(x, y, width, height, Math.min(3, width / 3));
  context.fill();
}

/** A call that never returned runs into a torn edge. */
function openBox(context, view, lane, x, colour) {
  const edge = view.torn();
  const teeth = Math.max(2, Math.round(lane.height / 8));
  const step = lane.height / teeth;
  context.save();
  context.beginPath();
  context.moveTo(x, lane.y);
  context.lineTo(edge, lane.y);
  for (let k = 0; k < teeth; k += 1) {
    context.lineTo(edge - 8, lane.y + (k + 0.5) * step);
    context.lineTo(edge, lane.y + (k + 1) * step);
  }
  context.lineTo(x, lane.y + lane.height);
  context.closePath();
  context.fill();
  if (lane.height >= 6) {
    context.clip();
    context.strokeStyle = thin(colours().paper, 0.35);
    context.lineWidth = 2;
    const begin = Math.max(x, -lane.height);
    for (let at = begin - lane.height; at < edge; at += 9) {
      context.beginPath();
      context.moveTo(at, lane.y + lane.height);
      context.lineTo(at + lane.height, lane.y);
      context.stroke();
    }
  }
  context.restore();
  context.fillStyle = colour;
}

function label(context, view, data, i, lane, x, end, open) {
  const [name] = view.run.functions[data.function[i]] ?? ["?"];
  const word = name.replace(/^MPI_|_c$/g, "");
  const wide = `${word}${partner(view, data, i)}${open ? " (never returned)" : ""}`;
  const room = end - x - 8;
  const text = [wide, `${word}${open ? " …" : ""}`, word].find((t) => view.measure(context, t) <= room);
  if (!text) return;
  const width = view.measure(context, text);
  const colour = colours()[view.run.classes[data.class[i]]];
  if (open) {
    context.fillStyle = colour;
    context.fillRect(x + 2, lane.y + 1, width + 6, lane.height - 2);
  }
  context.fillStyle = textOn(colour);
  context.fillText(text, x + 4, lane.y + lane.height / 2 + 0.5);
}

function partner(view, data, i) {
  const kind = view.run.classes[data.class[i]];
  if (kind !== "send" && kind !== "receive") return "";
  const peer = data.peer[i] === -1 ? "any" : data.peer[i] < -1 ? "nobody" : data.peer[i];
  const tag = data.tag[i] === -1 ? "" : ` #${data.tag[i]}`;
  return `${kind === "send" ? " →" : " ←"} ${peer}${tag}`;
}
