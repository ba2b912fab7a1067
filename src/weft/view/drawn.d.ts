// What the parts of the page hand to each other.

import type { Axis, Columns, Message, Numbers, Place, Run, Window } from "weft/sent";

export type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

/** Colours by name, such as `ink` (theme.js). */
export type Palette = Record<string, string>;

/** A group's head, above its rows. */
export interface Head {
  kind: "head";
  name: string;
  rows: number[];
  y: number;
  height: number;
  folded: boolean;
  stressed?: undefined;
  group?: undefined;
}

/** What is drawn in one line: a row, some neighbours, or a folded group. */
export interface Lane {
  kind: "lane";
  rows: number[];
  y: number;
  height: number;
  group: string;
  label: string;
  stressed: boolean;
}

export type Item = Head | Lane;

/** What lies under a place of the graph. */
export type Hit =
  | { kind: "ruler"; at: number }
  | { kind: "head"; item: Head }
  | { kind: "label"; item: Lane | null }
  | { kind: "lane"; x: number; y: number; item: Lane | null; at: number; index: number };

export type LaneHit = Extract<Hit, { kind: "lane" }>;

/** Lanes as the painters of columns need them. */
export interface Strips {
  lanes: { y: number; height: number; rows: number[] }[];
  bottom: number;
}

/** A window that was asked for, and its columns as a picture. */
export interface Part<Of extends Strips = Strips> {
  data: Window;
  lanes: Of;
  axis: string;
  filtered: boolean;
  picture: OffscreenCanvas;
}

export type Line = [x1: number, y1: number, x2: number, y2: number];

/** Where a message is drawn. */
export interface Drawn {
  message: Message;
  line: Line;
}

/** A few words in the picture. */
export interface Note {
  left: number;
  top: number;
  right: number;
  bottom: number;
  text: string;
  colour: string;
}

/** The graph as what draws into it sees it: what is shown, and where places lie in pixels. */
export interface View {
  run: Run;
  width: number;
  ratio: number;
  notes: Note[];
  lines: Drawn[];
  /** How much of the axis is shown. */
  wide: number;
  pitch: number;
  /** Whether the axis is one of time. */
  clock: boolean;
  realTime(at: number): number;
  x(at: number): number;
  rowY(row: number): number;
  rankY(rank: number): number | null;
  isOpen(event: [rank: number, event: number]): boolean;
  isLast(data: Numbers, lane: number, i: number): boolean;
  merged(a: number, b: number): boolean;
  laneOf(row: number): Lane | null;
  torn(): number;
  measure(context: Context, text: string): number;
}
