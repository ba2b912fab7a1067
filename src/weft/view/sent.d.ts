// What the server sends to the page (picture.py, window.py), and what an exported file holds (export.py).
// tests/view/test_sent.py holds the names against real answers.

/** Rank and event: a call. */
export type Id = [rank: number, event: number];

/** Where a call lies on an axis: its row, its start and its end. */
export type Spot = [row: number, start: number, end: number];

/** A place on an axis: the row, and where in it. */
export type Place = [row: number, at: number];

/** Numbers by index: a typed array from the server, a plain one out of an exported file. */
export type Numbers = ArrayLike<number>;

export interface Run {
  path: string;
  name: string;
  ranks: number;
  command: string[];
  ended: string;
  started: string;
  events: number;
  last_ns: number;
  classes: string[];
  functions: Record<string, [name: string, kind: number]>;
  rows: [label: string, rank: number, thread: number, state: string][];
  /** What tasks are called, by rank; empty where ranks have numbers only. */
  names: string[];
  /** The system whose calls were recorded: MPI or PVM. */
  system: string;
  open: [rank: number, event: number, row: number][];
  groupings: Record<string, [name: string, rows: number[]][]>;
  sources_note: string | null;
  /** Whether somebody else recorded it, or another machine than that of the server, where there is one. */
  elsewhere?: boolean;
  /** Where a replay starts the program, where there is a server. */
  folder?: string;
}

export interface Axis {
  name: string;
  end: number;
  measured: number;
  folds: [at: number, width: number, start: number, end: number][];
  ends: End[];
}

/** Where a rank ended before its time. */
export interface End {
  rank: number;
  row: number;
  time: number;
  at: number;
  label: string;
  kind: string;
}

/** Columns of true shares of all lanes. Of lanes with room for each call there are boxes too. */
export interface Columns {
  columns: number;
  classes: string[];
  lanes: number;
  events: number[];
  boxed: number[];
  from: number;
  to: number;
  shares: Numbers;
  /** By lane and column 1 where a call fits the filter. */
  hits?: Numbers;
  /** Whether these are the columns of the whole run, of a file without the single calls of this stretch. */
  outline?: boolean;
}

export interface Boxes {
  lane: Numbers;
  start: Numbers;
  end: Numbers;
  event: Numbers;
  function: Numbers;
  class: Numbers;
  flags: Numbers;
  fits: Numbers;
  peer: Numbers;
  tag: Numbers;
}

export type Window = Columns & (Boxes | { [name in keyof Boxes]?: undefined });

/** A message that came. */
export interface Arrow {
  from: Place;
  to: Place;
  send: Id;
  receive: Id;
  post: Id;
  tag: number;
  comm: string;
  row: number;
  /** For how long somebody waited for it. */
  ns?: number;
  worst?: boolean;
  fits?: boolean;
  kind?: undefined;
  event?: undefined;
}

/** A message that nobody received, or a receive to which nobody sent. */
export interface Stub {
  from: Place;
  toward: number | null;
  end: number;
  event: Id;
  peer: number;
  tag: number;
  comm: string;
  kind: "unmatched-send" | "unmatched-receive";
  row: number;
  fits?: boolean;
  to?: undefined;
  send?: undefined;
  ns?: undefined;
  /** What the page adds: why it missed its partner, and whether the partner says it. */
  near?: string;
  silent?: boolean;
}

export type Message = Arrow | Stub;

export interface Band {
  instance: number;
  comm: string;
  comm_index: number;
  name: string;
  missing: number;
  parts: [row: number, start: number, end: number, first: number, last?: number][];
  fits?: boolean;
}

export interface Links {
  ready: boolean;
  messages: Message[];
  bands: Band[];
  hidden: number;
  bands_hidden: boolean;
}

export interface Site {
  rank: number;
  call: string;
  file: string | null;
  line: number | null;
  function: string | null;
  callers: { file: string | null; line: number | null; function: string | null }[];
}

export type Severity = "error" | "warning" | "note";

/** Who waits for whom. */
export interface Wait {
  kind: "waits";
  rank: number;
  for: number;
  cycle: boolean;
  ranks: number;
}

/** The message that a racing receive took, or one that it could have taken. */
export interface Race {
  kind: "took" | "could";
  from: Place;
  to: Place;
  send: Id;
  receive: Id;
}

export interface Finding {
  kind: string;
  severity: Severity;
  certainty: "certain" | "possible" | "undecided";
  message: string;
  ranks: number[];
  sites: Site[];
  events: [rank: number, event: number, row: number, start: number, end: number][];
  evidence: {
    cycle?: number[];
    waiting?: number[];
    late?: number[];
    /** Of a race the outcomes that were run: how each was forced, where it lies, what it does. */
    explored?: { forced: string; run: string; effects: string[] }[];
    [more: string]: unknown;
  };
  first: number;
  arrows: (Wait | Race)[];
  replays: string[];
  window: [from: number, to: number] | null;
}

export interface Findings {
  ready: boolean;
  findings: Finding[];
  failures: string[];
  heading?: string;
  /** What was not looked at. */
  gaps?: string[];
  problems?: string[];
  ends?: string[];
}

export interface Source {
  file: string;
  line: number;
  first: number;
  /** By line the parts of its text, each with what it is. */
  coloured: [kind: string, text: string][][];
  /** Not in an exported file. */
  lines?: string[];
  kept: boolean;
  statement: { first: number; text: string } | null;
  note: string | null;
}

export interface Caller {
  text: string;
  file?: string | null;
  line?: number | null;
  function?: string | null;
}

/** Where a call stands in the source. */
export interface CallSite extends Caller {
  module?: string | null;
  offset?: number;
  callers: Caller[];
}

export interface Argument {
  name: string;
  text: string;
  value: unknown;
  out: boolean;
  values: number | null;
}

export interface Partner {
  what: string;
  event: Id | null;
  text?: string;
  site?: string;
}

export interface Communicator {
  name: string;
  label: string | null;
  size: number;
  my_rank: number | null;
  members: string;
  made_by: string | null;
  remote_members?: string;
}

export interface Datatype {
  name: string;
  size: number | null;
  extent: number | null;
  combiner: string;
  signature: [name: string, count: number][] | null;
}

export interface Tip {
  text?: string;
  /** The method of mpi4py that made the call for its own purposes. */
  method: string | null;
  bytes: number | null;
  site: string;
  tag: number | null;
  peer: string | null;
}

/** What is told of a call, whatever the axis. */
export interface CallFacts {
  rank: number;
  event: number;
  thread: number;
  function: string;
  text: string;
  open: boolean;
  error: number;
  error_text: string;
  enter_ns: number;
  exit_ns: number | null;
  duration_ns: number | null;
  args: Argument[];
  polls: number;
  calls: number;
  state: string;
  status: { source: number; tag: number; bytes: number } | null;
  cancelled: boolean;
  buffer_changed: boolean;
  task?: string | null;
  tip?: Tip;
  damage: string | null;
  site: CallSite;
  source: Source | null;
  replay: string;
  /** null as long as the run is not matched. */
  partners: Partner[] | null;
  findings: number[];
  count: number;
  comm?: Communicator;
  datatype?: Datatype;
}

export interface Call extends CallFacts {
  place: Spot;
  links: { messages: Message[]; band: Band | null } | null;
}

/** The call at an end of a message. */
export interface EndCall {
  event: Id;
  function: string;
  site: string;
  open: boolean;
  enter_ns: number;
  exit_ns: number | null;
}

export type Side = "send" | "receive";

export interface MessageTold {
  side: Side;
  row: number;
  tag: number;
  comm: string;
  bytes: number | null;
  latency_ns: number | null;
  send: EndCall | null;
  post: EndCall | null;
  receive: EndCall | null;
  peer: number;
  why: string[];
}

export interface MessageFacts extends MessageTold {
  arrow: Message;
  places: Spot[];
}

/** By row how far the past of a call reaches, and where its future begins. */
export interface Around {
  past: (number | null)[];
  future: (number | null)[];
}

export interface TimeRow {
  name: string;
  calls: number;
  ns: number;
  waiting_ns: number;
}

export interface Culprit {
  rank: number;
  kind: string;
  name: string;
  ns: number;
  waits: number;
  waiting: string;
  worst_ns: number;
  event: Id;
  late_event: Id;
}

export interface Tables {
  from: number;
  to: number;
  whole: boolean;
  times: Record<"function" | "rank" | "site", TimeRow[]>;
  matrix: { ranks_per_block: number; messages: number[][]; bytes: number[][] };
  waiting: {
    /** Of a stretch without ranks and threads. */
    base: { ns: number; span_ns: number; ranks?: number; threads?: number; text: string };
    in_mpi_ns: number;
    late_ns: number;
    crowded: string | null;
    open_calls: number;
    causes: { cause: string; name: string; late: boolean; ns: number; share: number }[];
    /** Of the whole run only. */
    by_rank?: { rank: number; in_mpi_ns: number; wall_ns: number; causes: Record<string, number> }[];
  };
  culprits: Culprit[];
  /** Whether there are no others: those of an exported file. */
  fixed?: boolean;
}

export interface Found {
  event: Id | null;
  calls?: number;
}

export interface Hit {
  count: number;
  event: Id | null;
  text: string;
}

/** Where a thread of the replay stands: before a call, in it, or behind it (`end`). */
export interface Stands {
  rank: number;
  thread: number;
  state: string;
  words: string;
  event: Id | null;
  side: "start" | "in" | "end";
  at: Spot | null;
  site: string | null;
}

/** What was written: by a rank, or by the debugger (null). */
export type Written = [rank: number | null, kind: string, text: string];

export interface Replay {
  version: number;
  state: "none" | "starting" | "running" | "stopped" | "failed";
  said: string;
  focus: number;
  over: boolean;
  ranks: Stands[];
  /** The calls that it stops before. */
  stops: [rank: number, event: number, row: number, start: number, end: number][];
  /** Which of all that was written comes first here, and how much that is in all. */
  first: number;
  written: number;
  output: Written[];
}

export type Move = "until" | "stop" | "start" | "end" | "continue" | "next" | "back" | "reverse" | "pause";

/** The first place at which a rank's calls differ, in both runs. */
export interface Difference {
  rank: number;
  /** A call that is another one, or what a call sends or receives. */
  what: "call" | "sent" | "received";
  /** Whether no other rank's difference happens before it. */
  first: boolean;
  /** How many calls are alike before it. */
  alike: number;
  /** Of each run the call (null where there is no further one), and where it and what lies around it are. */
  sides: { event: Id | null; text: string; row: number; at: number; around: [from: number, to: number] }[];
}

/** A call and where it lies. */
export type Placed = [rank: number, event: number, row: number, start: number, end: number];

/** What differs, in the places of one of the runs. */
export interface BesideSide {
  name: string;
  ended: string;
  /** Of each rank that differs, where it does first. */
  spread: Place[];
  /** Receives that take another message; calls that the other run does not have; the messages of both. */
  changed: Placed[];
  only: Placed[];
  /** Calls whose messages hold other bytes. */
  held: Placed[];
  messages: Message[];
}

/** Two runs of a program, one held against the other. */
export interface Beside {
  axis: string;
  texts: string[];
  /** Whether their values can be seen, too. */
  values: boolean;
  differences: Difference[];
  sides: BesideSide[];
}

/** The first moment at which a difference is at a probe on a rank. */
export interface Reached {
  at: number;
  probe: string;
  first: boolean;
  iterations: string;
  text: string;
  ranks: string;
}

/** The values of two runs: a moment is a probe in an iteration, in the order of the reference. */
export interface Values {
  names: string[];
  moments: number;
  /** The colours of errors, from the least to the largest, on a light ground and on a dark one. */
  ramp: Record<"light" | "dark", number[][]>;
  /** Whether their calls can be seen, too. */
  calls: boolean;
  alike: boolean;
  /** By run the names of the ranks. */
  ranks: string[][];
  texts: string[];
  reached: Reached[];
  /** Of each rank of the run that differs, where it does first. */
  spread: [rank: number, at: number][];
  /** The least error and the largest. */
  errors: [least: number, most: number] | null;
  /** The first moment that only one run has. */
  parting: number | null;
}

/** What each rank has in each of some columns of moments: see valued.py for the states. */
export interface Strip {
  from: number;
  to: number;
  columns: number;
  ticks: [at: number, text: string][];
  reference: Uint8Array;
  run: Uint8Array;
  /** Of the run's values how far apart they are at most; infinite where that has no size. */
  error: Float64Array;
}

/** An array that a picture can be made of. */
export interface Layer {
  number: number;
  name: string;
  /** First index and end in each dimension, from 0 on. */
  whole: [first: number, end: number][];
  /** What the program calls the first index. */
  base: number;
  /** The first element that differs. */
  first: number[] | null;
}

export interface Moment {
  at: number;
  title: string;
  /** Where the probe is in the reference. */
  reference: string;
  texts: string[];
  layers: Layer[];
  /** Of a few numbers: rank, element, reference, run, how far apart, units in the last place. */
  numbers: string[][];
}

/** The largest error in each cell of a picture; -1 where not both runs have an element. */
export interface Field {
  shape: number[];
  cells: Float64Array;
}

/** An element: its name, and in the reference, in the run, how far apart, units in the last place. */
export interface Element {
  text: string;
  numbers: string[] | null;
  ranks: [reference: number, run: number] | null;
}

/** What of values is asked for. */
export interface ValuesApi {
  told(): Promise<Values>;
  strip(given: { from: number; to: number; columns: number }, signal?: AbortSignal): Promise<Strip>;
  moment(at: number): Promise<Moment>;
  field(
    given: { at: number; layer: number; window: string; axes: string; most: string; unit: string },
    signal?: AbortSignal,
  ): Promise<Field>;
  element(given: { at: number; layer: number; index: string }): Promise<Element>;
}

/** A stretch of an axis that is asked for. */
export interface Stretch {
  axis: string;
  from: number;
  to: number;
}

/** What the page asks for. */
export interface Api {
  exported: boolean;
  /** Whether there is an axis. */
  has(axis: string): boolean;
  run(): Promise<Run>;
  axis(axis: string): Promise<Axis>;
  window(given: Stretch & { lanes: string; columns: number; filter: string }, signal?: AbortSignal): Promise<Window>;
  links(given: Stretch & { filter: string }, signal?: AbortSignal): Promise<Links>;
  findings(axis: string, patience: number): Promise<Findings>;
  event(axis: string, rank: number, event: number): Promise<Call>;
  around(axis: string, rank: number, event: number): Promise<Around>;
  at(given: Stretch & { row: number }): Promise<Found>;
  search(given: { axis: string; filter: string; near: number; row: number; back: number }): Promise<Hit>;
  tables(given: Stretch): Promise<Tables>;
  message(axis: string, side: Side, row: number): Promise<MessageFacts>;
  tip(rank: number, event: number): Promise<Tip>;
  replay(
    given: { axis: string; version: number; written: number; patience: number },
    signal?: AbortSignal,
  ): Promise<Replay>;
  move(name: Move, given: { rank?: number; event?: number; agreed?: boolean }): Promise<void>;
}

type Unplaced<T> = Omit<T, "from" | "to" | "end">;

/** Row, whether the end is meant: how far a past or a future reaches, whatever the axis. */
type Point = [event: number, end: boolean] | null;

/** The data of an exported file: calls by rank and index, whose places follow from these. */
export interface Exported {
  run: Run;
  axes: Record<string, Axis>;
  findings: Record<string, Findings>;
  tables: Tables;
  /** Whether all calls are in it; else those of these windows. */
  whole: boolean;
  windows: [from: number, to: number][];
  row_first: number[];
  messages: (Unplaced<Arrow> | Unplaced<Stub>)[];
  bands: (Omit<Band, "parts"> & { parts: [row: number, first: number, last: number][] })[];
  message_facts: Record<string, MessageTold>;
  /** By `rank:event`; the source is a name in `sources`. */
  details: Record<string, Omit<CallFacts, "source" | "tip"> & { source: string | null; tip: Tip }>;
  sources: Record<string, Source>;
  shades: Record<string, { past: Point[]; future: Point[] }>;
  start: Float64Array;
  end: Float64Array;
  event: Uint32Array;
  function: Uint16Array;
  class: Uint8Array;
  flags: Uint16Array;
  peer: Int32Array;
  tag: Int32Array;
  step_start: Float64Array;
  step_end: Float64Array;
  shares_time: Uint8Array;
  shares_folded: Uint8Array;
}
