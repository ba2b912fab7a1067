const c = document.querySelector(".matrix canvas");
const g = c.getContext("2d");
const inked = (x, y, w, h) => {
  const d = g.getImageData(x, y, w, h).data;
  const seen = new Set();
  for (let i = 0; i < d.length; i += 4) seen.add(d.slice(i, i + 4).join());
  return seen.size;
};
return {
  top: inked(54, 0, 256, 38),
  left: inked(0, 40, 52, 256),
  scale: inked(330, 40, 14, 140),
  numbers: inked(348, 36, 60, 150),
  diagonal: inked(54 + 10, 40 + 10, 40, 40),
  sent: inked(54 + 74, 40 + 10, 40, 40),
  none: [...g.getImageData(54 + 30, 40 + 30, 1, 1).data],
  some: [...g.getImageData(54 + 94, 40 + 30, 1, 1).data],
};
