const bad = [];
let seen = 0;
for (const e of document.body.querySelectorAll("*")) {
  if (
    ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) ||
    !e.checkVisibility() ||
    e.disabled ||
    e.closest(".unseen, option, script")
  )
    continue;
  const under = grounds(e);
  seen += 1;
  const found = ratio(over([...under, getComputedStyle(e).color]).slice(0, 3), over(under).slice(0, 3));
  if (found < 4.5) bad.push([e.tagName, e.className, e.textContent.slice(0, 40), found.toFixed(2)]);
}
return [seen, bad];
