const canvas = document.createElement("canvas");
canvas.width = canvas.height = 1;
const c = canvas.getContext("2d", { willReadFrequently: true });
const over = (colours) => {
  c.clearRect(0, 0, 1, 1);
  for (const one of colours) {
    c.fillStyle = one;
    c.fillRect(0, 0, 1, 1);
  }
  return [...c.getImageData(0, 0, 1, 1).data];
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (a, b) => {
  const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
  return (x + 0.05) / (y + 0.05);
};
const grounds = (e) => {
  const found = [];
  for (let at = e; at; at = at.parentElement) found.unshift(getComputedStyle(at).backgroundColor);
  return found;
};
const done = arguments[0];
import("weft/theme.js").then(({ colours, textOn, thin }) => {
  const p = colours();
  const bad = [];
  const check = (name, text, ...under) => {
    const found = ratio(over([...under, text]).slice(0, 3), over(under).slice(0, 3));
    if (found < 4.5) bad.push([name, found.toFixed(2)]);
  };
  for (const name of ["ink", "quiet", "error", "warning", "note", "accent"]) check(name, p[name], p.paper);
  for (const name of ["error", "warning", "note"]) check(`label ${name}`, p[name], p.paper, thin(p[name], 0.12));
  for (const name of ["send", "receive", "wait", "probe", "collective", "one-sided", "io", "other"])
    check(`on ${name}`, textOn(p[name]), p[name]);
  check("pale", p.quiet, p.paper, p.track);
  done(bad);
});
