return [...document.querySelectorAll(".legend li")].map((li) => {
  const c = li.querySelector("canvas");
  const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  let inked = 0;
  for (let i = 3; i < d.length; i += 4) inked += d[i] > 40;
  return [li.innerText.trim(), inked];
});
