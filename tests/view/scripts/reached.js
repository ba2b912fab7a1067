const least = (e) =>
  e.matches(".sorted button, .plain, .row-go") ? [20, 36] : e.matches("input, select") ? [100, 44] : [44, 44];
const bad = [];
let seen = 0;
for (const e of document.querySelectorAll("button, input, select, a")) {
  if (!e.checkVisibility() || (document.querySelector("dialog[open]") && !e.closest("dialog"))) continue;
  e.scrollIntoView({ block: "center", inline: "nearest" });
  const r = e.getBoundingClientRect();
  const [w, h] = least(e);
  seen += 1;
  const at = document.elementFromPoint(r.x + Math.min(r.width / 2, 8), r.y + r.height / 2);
  const hit = e.disabled || (at && (e === at || e.contains(at) || at.contains(e)));
  if (
    r.left < 0 ||
    r.right > innerWidth + 0.5 ||
    r.bottom > innerHeight + 0.5 ||
    r.width < w - 0.5 ||
    r.height < h - 0.5 ||
    !hit
  )
    bad.push([
      e.id || e.textContent.slice(0, 30),
      Math.round(r.left),
      Math.round(r.right),
      Math.round(r.width),
      Math.round(r.height),
      Boolean(hit),
    ]);
}
return [seen, bad, document.documentElement.scrollWidth];
