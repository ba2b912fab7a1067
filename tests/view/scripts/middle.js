// Where an arrow of a message can be pointed at and no other one is near: [message, x, y].
const { graph } = page;
const at = (l, t) => [l[0] + (l[2] - l[0]) * t, l[1] + (l[3] - l[1]) * t];
for (const { message, line } of graph.lines)
  for (const t of [0.5, 0.4, 0.6, 0.45, 0.55]) {
    const [x, y] = at(line, t);
    const item = graph.lanes.at(y);
    if (
      message.to &&
      message.from[0] !== message.to[0] &&
      x > 5 &&
      x < graph.width - 5 &&
      !(item && y >= item.y && y <= item.y + item.height) &&
      graph.lines.every(
        (o) =>
          o.message === message ||
          !graph.messageAt({ kind: "lane", item: null, x, y }, 6) ||
          [...Array(41).keys()].every((k) => {
            const [p, q] = at(o.line, k / 40);
            return Math.hypot(p - x, q - y) > 12;
          }),
      )
    ) {
      done([message, x, y]);
      return;
    }
  }
done(null);
