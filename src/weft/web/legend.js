// The legend: a sample of everything that the graph draws, drawn by what draws it there.

import { dot, flag } from "weft/cut.js";
import { drawing, el } from "weft/dom.js";
import { arc, arrow, endMark, stub, torn } from "weft/shapes.js";
import { colours, thin } from "weft/theme.js";

/** @import { Context, Palette } from "weft/drawn" */
/** @import { Run } from "weft/sent" */

const [WIDE, HIGH] = [64, 24];

/** @typedef {(context: CanvasRenderingContext2D, palette: Palette) => void} Draw */

/**
 * [title, [[words, draw]]]: `draw(context, palette)` fills a place of 64 by 24 pixels.
 * @param {Run} run
 * @returns {[title: string, items: [words: string, draw: Draw][]][]}
 */
function groups(run) {
  /** @type {[words: string, draw: Draw][]} */
  const calls = run.classes.map((name) => [name, (c, p) => box(c, p[name], 6, 52)]);
  return [
    [
      "Calls",
      [
        ...calls,
        ["a call that never returned: it runs into a torn edge", (c, p) => torn(c, 6, 58, 5, 14, p.receive, p.paper)],
        ["many calls: in each column the share of time that each kind took", shares],
        ["no call: the program computes", (c, p) => box(c, p.track, 4, 56)],
        [
          "a call that does not fit the filter is pale, as are arrows and collectives",
          (c, p) => {
            box(c, thin(p.send, 0.22), 4, 26);
            c.globalAlpha = 0.2;
            arrow(c, 36, 4, 60, 20, { colour: p.message, width: 1.3 });
            c.globalAlpha = 1;
          },
        ],
      ],
    ],
    [
      "Messages and collectives",
      [
        [
          "a message, from the beginning of its send to the end of the call that had it",
          (c, p) => arrow(c, 6, 5, 56, 19, { colour: p.message, width: 1.3, head: 7 }),
        ],
        [
          "a message that somebody waited for, longer than a fiftieth of the window",
          (c, p) => arrow(c, 6, 5, 56, 19, { colour: p.late, width: 1.8, head: 7 }),
        ],
        [
          "a message that nobody receives",
          (c, p) => stub(c, [8, 5], [50, 18], { colour: p.error, width: 1.8, sent: true }),
        ],
        [
          "a receive to which nobody sends",
          (c, p) => stub(c, [8, 18], [50, 6], { colour: p.error, width: 1.8, sent: false }),
        ],
        [
          "the chosen call, the chosen message and its calls",
          (c, p) => {
            frame(c, p.accent, 4, 26);
            arrow(c, 32, 5, 58, 19, { colour: p.accent, width: 3, head: 10 });
          },
        ],
        ["a collective, from its members' entries to their returns", (c, p) => band(c, p.collective)],
        ["another colour: another communicator", (c, p) => band(c, p["one-sided"])],
      ],
    ],
    [
      "The chosen finding",
      [
        [
          "its calls; boldly those in the middle of it",
          (c, p) => {
            frame(c, p.error, 4, 26);
            frame(c, thin(p.error, 0.6), 36, 24, 1);
          },
        ],
        [
          "its calls, where several ranks share a row",
          (c, p) => {
            box(c, p.collective, 6, 52, 3, 12);
            c.fillStyle = p.error;
            c.fillRect(6, 17, 52, 2);
          },
        ],
        [
          "its ranks: their rows stand out",
          (c, p) => {
            c.fillStyle = thin(p.error, 0.12);
            c.fillRect(2, 2, 60, 20);
            c.fillStyle = p.error;
            c.fillRect(2, 2, 3, 20);
            c.font = "700 11px system-ui, 'DejaVu Sans', sans-serif";
            c.textBaseline = "middle";
            c.fillText("rank 2", 10, 12.5);
          },
        ],
        ["a ring: ranks that wait for each other, a cycle", ring],
        [
          "who waits for whom, from the dot to the point",
          (c, p) =>
            turned(c, () =>
              arc(c, 3, 4, 60, { colour: p.warning, ground: p.paper, width: 2, bulge: -14, dot: 3.5, head: 9 }),
            ),
        ],
        [
          "a race: the message that was taken",
          (c, p) => arrow(c, 6, 5, 56, 19, { colour: p.accent, width: 2.2, head: 8 }),
        ],
        [
          "a race: one that could have come first",
          (c, p) => arrow(c, 6, 5, 56, 19, { colour: p.error, width: 2.2, dash: [7, 4], head: 8 }),
        ],
        [
          "in the strip of the whole run: where findings lie",
          (c, p) => {
            for (const { x, kind } of [
              { x: 18, kind: "error" },
              { x: 42, kind: "warning" },
            ]) {
              c.fillStyle = p[kind];
              c.beginPath();
              c.moveTo(x - 6, 6);
              c.lineTo(x + 6, 6);
              c.lineTo(x, 16);
              c.fill();
            }
          },
        ],
      ],
    ],
    [
      "Ends of ranks",
      [
        ["ended by itself: an exception, a crash, an exit", (c, p) => endMark(c, 32, 12, 8, "crash", p)],
        ["ended from outside, or by MPI_Abort", (c, p) => endMark(c, 32, 12, 8, "abort", p)],
        ["the record ends here; how the rank ended is not known", (c, p) => endMark(c, 32, 12, 8, "lost", p)],
      ],
    ],
    [
      "Replay",
      [
        [
          "how far each rank has come; what lies behind the line has not happened yet",
          (c, p) => {
            c.fillStyle = p.ink;
            c.fillRect(24, 1, 1.5, 22);
            flag(c, 25, 12, 6, p);
          },
        ],
        ["a call that the replay stops before", (c, p) => dot(c, 32, 12, p)],
      ],
    ],
    [
      "Time",
      [
        ["what had to happen before the chosen call", (c, p) => edge(c, p.past, 4, 36, 40)],
        ["what cannot happen without it", (c, p) => edge(c, p.future, 24, 36, 24)],
        ["a stretch that is folded away", fold],
        [
          "a mark that you set",
          (c, p) => {
            c.fillStyle = p.good;
            c.fillRect(31, 0, 2, HIGH);
          },
        ],
        [
          "where the pointer is; what is measured or will be zoomed to",
          (c, p) => {
            c.fillStyle = thin(p.accent, 0.16);
            c.fillRect(16, 0, 32, HIGH);
            c.fillStyle = p.accent;
            c.fillRect(16, 0, 1.5, HIGH);
            c.fillRect(48, 0, 1.5, HIGH);
          },
        ],
      ],
    ],
  ];
}

/**
 * The legend as a panel.
 * @param {Run} run
 */
export function legendPanel(run) {
  const palette = colours();
  return el(
    "div",
    { class: "legend" },
    groups(run).map(([title, items]) =>
      el(
        "section",
        {},
        el("h3", {}, title),
        el(
          "ul",
          {},
          items.map(([words, draw]) => el("li", {}, sample(draw, palette), el("span", {}, words))),
        ),
      ),
    ),
  );
}

/**
 * @param {Draw} draw
 * @param {Palette} palette
 */
function sample(draw, palette) {
  const ratio = devicePixelRatio || 1;
  const canvas = el("canvas", { width: WIDE * ratio, height: HIGH * ratio, "aria-hidden": "true" });
  const context = drawing(canvas);
  context.scale(ratio, ratio);
  draw(context, palette);
  return canvas;
}

/**
 * @param {Context} c
 * @param {string} colour
 * @param {number} x
 * @param {number} width
 * @param {number} [y]
 * @param {number} [height]
 */
function box(c, colour, x, width, y = 5, height = 14) {
  c.fillStyle = colour;
  c.beginPath();
  c.roundRect(x, y, width, height, 3);
  c.fill();
}

/**
 * @param {Context} c
 * @param {string} colour
 * @param {number} x
 * @param {number} width
 * @param {number} [line]
 */
function frame(c, colour, x, width, line = 2) {
  box(c, thin(colours().collective, 0.8), x + 2, width - 4, 6, 12);
  c.strokeStyle = colour;
  c.lineWidth = line;
  c.beginPath();
  c.roundRect(x, 4, width, 16, 4);
  c.stroke();
}

/**
 * @param {Context} c
 * @param {Palette} p
 */
function shares(c, p) {
  for (let x = 0; x < 52; x += 1) {
    const wait = 7 + 5 * Math.sin(x / 6);
    const send = 3 + 2 * Math.cos(x / 4);
    c.fillStyle = p.track;
    c.fillRect(6 + x, 3, 1, 18);
    c.fillStyle = p.wait;
    c.fillRect(6 + x, 21 - wait, 1, wait);
    c.fillStyle = p.send;
    c.fillRect(6 + x, 21 - wait - send, 1, send);
  }
}

/**
 * @param {Context} c
 * @param {string} colour
 */
function band(c, colour) {
  c.beginPath();
  for (const [k, [x, y]] of [
    [14, 2],
    [8, 22],
    [54, 22],
    [56, 2],
  ].entries())
    if (k) c.lineTo(x, y);
    else c.moveTo(x, y);
  c.closePath();
  c.fillStyle = thin(colour, 0.18);
  c.fill();
  c.strokeStyle = thin(colour, 0.8);
  c.stroke();
}

/**
 * Draws what stands upright in the graph lying down.
 * @param {Context} c
 * @param {() => void} draw
 */
function turned(c, draw) {
  c.save();
  c.translate(0, 14);
  c.rotate(-Math.PI / 2);
  draw();
  c.restore();
}

/**
 * @param {Context} c
 * @param {Palette} p
 */
function ring(c, p) {
  turned(c, () => {
    arc(c, -1, 8, 56, { colour: p.error, ground: p.paper, width: 2.5, bulge: 9, dot: 3, head: 8 });
    arc(c, 5, 56, 8, { colour: p.error, ground: p.paper, width: 2.5, bulge: -9, dot: 3, head: 8 });
  });
}

/**
 * @param {Context} c
 * @param {string} colour
 * @param {number} x
 * @param {number} width
 * @param {number} at
 */
function edge(c, colour, x, width, at) {
  c.fillStyle = thin(colour, 0.2);
  c.fillRect(x, 3, width, 18);
  c.fillStyle = colour;
  c.fillRect(at - 1, 2, 2, 20);
}

/**
 * @param {Context} c
 * @param {Palette} p
 */
function fold(c, p) {
  c.strokeStyle = p.quiet;
  c.lineWidth = 1;
  for (const side of [26, 38]) {
    c.beginPath();
    for (let y = 0; y <= HIGH; y += 4) c.lineTo(side + ((y / 4) % 2 ? 1.5 : -1.5), y);
    c.stroke();
  }
}
