// What things are called in the run that is shown: its ranks by numbers, and by their tasks where tasks have names.

/** @import { Run } from "weft/sent" */

/** @type {Pick<Run, "names" | "system">} */
let shown = { names: [], system: "MPI" };

/**
 * Takes the names of a run.
 * @param {Pick<Run, "names" | "system">} run
 */
export function takeNames(run) {
  shown = run;
}

/**
 * The name of a rank's task, "" where it has none.
 * @param {number} rank
 */
export const taskName = (rank) => shown.names[rank] ?? "";

/**
 * `rank 2`, or `rank 2 (worker 0.2)`.
 * @param {number} rank
 */
export const rankName = (rank) => `rank ${rank}${taskName(rank) && ` (${taskName(rank)})`}`;

/** The system whose calls were recorded. */
export const systemName = () => shown.system;
