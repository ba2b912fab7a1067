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
