// The bytes of a window (src/weft/view/window.py): a JSON head, then arrays, each at a multiple of 8.

const KINDS = { f64: Float64Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array, i32: Int32Array };

/**
 * @typedef {{ arrays: [name: string, kind: keyof typeof KINDS, count: number][] }} Listed
 * @typedef {Float64Array | Uint32Array | Uint16Array | Uint8Array | Int32Array} Values
 */

/**
 * The head with the arrays under their names. What the head says of them is what it is: the page's own server wrote it.
 * @template T
 * @param {ArrayBuffer} buffer
 * @returns {T}
 */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  /** @type {Listed} */
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  /** @type {Record<string, Values>} */
  const arrays = {};
  for (const [name, kind, count] of head.arrays) {
    at += (8 - (at % 8)) % 8;
    arrays[name] = new KINDS[kind](buffer, at, count);
    at += arrays[name].byteLength;
  }
  return /** @type {T} */ ({ ...head, ...arrays });
}
