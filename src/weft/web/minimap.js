// The whole run in a strip: where the window is, and where the trouble lies.

import { drawing } from "weft/dom.js";
import { colours, thin } from "weft/theme.js";
import { paintColumns } from "weft/tracks.js";

/** @import { Palette } from "weft/drawn" */
/** @import { Api, Axis, Finding, Run } from "weft/sent" */
/** @import { Page } from "weft/main.js" */
/** @import { State } from "weft/state.js" */

const LANES = 14;
const COLUMNS = 900;
const GUTTER = 92;

export class Minimap {
  /** @type {Axis} there is none before start() */
  axis;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Api} api
   * @param {Run} run
   * @param {State} state
   * @param {Page} actions
   */
  constructor(canvas, api, run, state, actions) {
    this.canvas = canvas;
    this.api = api;
    this.run = run;
    this.state = state;
    this.context = drawing(canvas);
    /** @type {OffscreenCanvas | null} */
    this.picture = null;
    /** @type {Finding[]} */
    this.findings = [];
    /** @type {number[] | null} the stretch that is being chosen */
    this.choice = null;
    new ResizeObserver(() => this.load()).observe(canvas);
    /** @type {number | null} */
    let from = null;
    /** @param {PointerEvent} event */
    const at = (event) => ((event.offsetX - GUTTER) / this.width) * this.axis.end;
    canvas.addEventListener("pointerdown", (event) => {
      from = at(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (from === null) return;
      this.choice = [from, at(event)].sort((a, b) => a - b);
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const to = at(event);
      const wide = Math.abs(to - from) > this.axis.end * 0.004;
      const half = (state.to - state.from) / 2;
      if (wide) actions.zoomTo(Math.min(from, to), Math.max(from, to));
      else actions.zoomTo(to - half, to + half);
      from = null;
      this.choice = null;
    });
  }

  get width() {
    return Math.max(50, this.canvas.clientWidth - GUTTER);
  }

  /** @param {Axis} axis */
  async start(axis) {
    this.axis = axis;
    await this.load();
  }

  async load() {
    if (!this.axis || !this.canvas.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(this.canvas.clientHeight * ratio);
    const rows = this.run.rows.length;
    const each = Math.max(1, Math.ceil(rows / LANES));
    /** @type {{ rows: [first: number, last: number], y: number, height: number }[]} */
    const lanes = [];
    const tall = (this.canvas.clientHeight - 8) / Math.ceil(rows / each);
    for (let i = 0; i < rows; i += each)
      lanes.push({
        rows: [i, Math.min(rows, i + each) - 1],
        y: 4 + lanes.length * tall,
        height: Math.max(1, tall - (tall > 4 ? 1 : 0)),
      });
    const { axis, filter } = this.state;
    try {
      const data = await this.api.window({
        axis,
        filter,
        from: 0,
        to: this.axis.end,
        columns: COLUMNS,
        lanes: lanes.map((l) => l.rows.join("-")).join("|"),
      });
      const strips = { lanes, bottom: this.canvas.clientHeight };
      this.picture = paintColumns({ ...data, boxed: [] }, strips, ratio, Boolean(filter));
    } catch {
      this.picture = null;
    }
    this.draw();
  }

  draw() {
    const { context, canvas } = this;
    if (!this.axis) return;
    const ratio = devicePixelRatio || 1;
    const palette = colours();
    const height = canvas.clientHeight;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.paper;
    context.fillRect(0, 0, canvas.clientWidth, height);
    context.font = "11px system-ui, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    context.fillStyle = palette.quiet;
    context.fillText("whole run", 10, height / 2);
    context.save();
    context.translate(GUTTER, 0);
    if (this.picture) {
      context.imageSmoothingEnabled = true;
      context.drawImage(
        this.picture,
        0,
        0,
        this.picture.width,
        this.picture.height,
        0,
        0,
        this.width,
        this.picture.height / ratio,
      );
    }
    /** @param {number} at */
    const x = (at) => (at / this.axis.end) * this.width;
    for (const finding of this.findings.filter((f) => f.severity !== "note").slice(0, 200)) {
      for (const [, , , start] of finding.events.slice(0, 8)) {
        context.fillStyle = palette[finding.severity];
        context.beginPath();
        context.moveTo(x(start) - 4, 0);
        context.lineTo(x(start) + 4, 0);
        context.lineTo(x(start), 6);
        context.fill();
      }
    }
    for (const mark of this.state.marks) {
      context.fillStyle = palette.good;
      context.fillRect(x(mark), 0, 1.5, height);
    }
    this.drawWindow(palette, x, height);
    context.restore();
  }

  /**
   * @param {Palette} palette
   * @param {(at: number) => number} x
   * @param {number} height
   */
  drawWindow(palette, x, height) {
    const [from, to] = this.choice ?? [this.state.from, this.state.to];
    const left = Math.max(0, x(from));
    const right = Math.min(this.width, x(to));
    const { context } = this;
    context.fillStyle = thin(palette.paper, 0.6);
    context.fillRect(0, 0, left, height);
    context.fillRect(right, 0, this.width - right, height);
    context.strokeStyle = palette.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, Math.max(3, right - left - 1.5), height - 1.5);
  }
}
