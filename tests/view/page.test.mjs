// The page's modules that need no browser: run by `make test-page` (node --test).

import assert from "node:assert/strict";
import { test } from "node:test";

import { unpack } from "../../src/weft/web/packed.js";
import { errorText, ramp, shareOf, takeRamp } from "../../src/weft/web/ramp.js";
import { bytes, count, duration, exact, plural } from "../../src/weft/web/units.js";

test("a duration has three digits that count and the unit that fits", () => {
  assert.equal(duration(1250000), "1.25 ms");
  assert.equal(duration(999), "999 ns");
  assert.equal(duration(999600), "1 ms");
  assert.equal(duration(null), "never returned");
});

test("an exact time loses no nanosecond, before zero neither", () => {
  assert.equal(exact(1234567890), "1.234567890 s");
  assert.equal(exact(-5), "-0.000000005 s");
});

test("numbers for people", () => {
  assert.equal(count(1234567), "1,234,567");
  assert.equal(plural(1, "call"), "1 call");
  assert.equal(plural(2000, "call"), "2,000 calls");
  assert.equal(bytes(1500), "1.5 KB");
});

/**
 * A window as src/weft/view/window.py lays it out.
 * @param {object} head
 * @param {(Uint8Array | Float64Array)[]} arrays
 */
function packed(head, arrays) {
  const text = new TextEncoder().encode(JSON.stringify(head));
  let size = 4 + text.length;
  for (const array of arrays) size += ((8 - (size % 8)) % 8) + array.byteLength;
  const buffer = new ArrayBuffer(size);
  new DataView(buffer).setUint32(0, text.length, true);
  new Uint8Array(buffer, 4, text.length).set(text);
  let at = 4 + text.length;
  for (const array of arrays) {
    at += (8 - (at % 8)) % 8;
    new Uint8Array(buffer, at, array.byteLength).set(new Uint8Array(array.buffer));
    at += array.byteLength;
  }
  return buffer;
}

test("a window is unpacked wherever its head ends", () => {
  for (const pad of ["", "a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdefg"]) {
    const head = {
      pad,
      arrays: [
        ["x", "u8", 3],
        ["y", "f64", 2],
      ],
    };
    const held = unpack(packed(head, [new Uint8Array([1, 2, 3]), new Float64Array([0.5, -1])]));
    assert.deepEqual([...held.x], [1, 2, 3]);
    assert.deepEqual([...held.y], [0.5, -1]);
    assert.equal(held.pad, pad);
  }
});

test("an error's colour lies between those of the ramp, by the theme", () => {
  const [black, grey, white] = [0, 100, 200].map((one) => [one, one, one]);
  takeRamp({ light: [white, grey, black], dark: [black, white] });
  assert.deepEqual(
    [0, 0.25, 1, 7].map((share) => ramp(share, "light")[0]),
    [200, 150, 0, 0],
  );
  assert.deepEqual(ramp(0.5, "dark"), [100, 100, 100]);
});

test("errors lie on a scale by their logarithm, and those without a size at its end", () => {
  assert.equal(shareOf(1e-9, [1e-12, 1e-6]), 0.5);
  assert.equal(shareOf(1e-15, [1e-12, 1e-6]), 0);
  assert.equal(shareOf(Infinity, [1e-12, 1e-6]), 1);
  assert.equal(shareOf(3, [3, 3]), 1);
  assert.deepEqual([0, 0.0012, 3.4e-9, 12345.6, 1e30, Infinity].map(errorText), [
    "0",
    "0.0012",
    "3.4e-9",
    "12300",
    "1.0e+30",
    "no number",
  ]);
});
