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
