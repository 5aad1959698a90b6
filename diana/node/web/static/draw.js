// Pictures: scales and paths of charts, where the sites of the map lie, and moving about on it.

import { svg } from "./dom.js";

const round = (value) => Math.round(value * 10) / 10;

/** Round steps from nought to `most` or beyond it: about `about` of them. */
export function steps(most, about) {
  const rough = Math.max(most, 1e-9) / about, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  return Array.from({ length: Math.ceil(most / step - 1e-9) + 1 }, (_, at) => at * step);
}

const SPANS = [10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Full minutes and hours of the viewer's clock between two times (seconds): about `about` of them. */
export function moments(from, to, about) {
  const span = SPANS.find((each) => (to - from) / each <= about) ?? SPANS[SPANS.length - 1];
  const shift = new Date(from * 1000).getTimezoneOffset() * 60;
  const out = [];
  for (let at = Math.ceil((from - shift) / span) * span + shift; at <= to; at += span) out.push(at);
  const seconds = span < 60;
  return out.map((at) => [at, new Date(at * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...(seconds ? { second: "2-digit" } : {}) })]);
}

/** A line that keeps its height until the next point; `floor`: closed down to there. */
export function stairs(points, floor = null) {
  if (!points.length) return "";
  let path = `M${round(points[0][0])},${round(points[0][1])}`;
  for (const [x, y] of points.slice(1)) path += `H${round(x)}V${round(y)}`;
  return floor === null ? path : `${path}V${round(floor)}H${round(points[0][0])}Z`;
}

/** The part of a disk from twelve o'clock on. */
export function slice(radius, part) {
  if (part <= 0 || radius <= 0) return "";
  if (part >= 1) return `M0,${-radius}A${radius},${radius},0,1,1,0,${radius}A${radius},${radius},0,1,1,0,${-radius}Z`;
  const angle = 2 * Math.PI * part;
  return `M0,0V${-radius}A${radius},${radius},0,${part > 0.5 ? 1 : 0},1,${round(radius * Math.sin(angle))},${round(-radius * Math.cos(angle))}Z`;
}

/** Push nodes {id, r, x, y} apart and draw linked ones {a, b, length} to their distance, in place. */
export function settle(nodes, links, width, height, rounds) {
  const by = new Map(nodes.map((node) => [node.id, node]));
  const pairs = links.map(({ a, b, length }) => ({ a: by.get(a), b: by.get(b), length })).filter(({ a, b }) => a && b);
  const space = Math.sqrt((width * height) / Math.max(1, nodes.length));
  const pull = Math.min(0.2, 1.5 / Math.max(1, nodes.length));
  for (const node of nodes) { node.dx = 0; node.dy = 0; }
  for (let at = 0; at < rounds; at += 1) {
    const heat = 1 - at / rounds;
    for (let k = 0; k < nodes.length; k += 1) {
      const one = nodes[k];
      one.dx += 0.03 * heat * (width / 2 - one.x); one.dy += 0.03 * heat * (height / 2 - one.y);
      for (let j = k + 1; j < nodes.length; j += 1) {
        const other = nodes[j];
        let x = other.x - one.x, y = other.y - one.y, far = x * x + y * y;
        // Two at the same place go apart by their order.
        if (far < 1) { x = 1 + (k % 7); y = 1 + (j % 5); far = x * x + y * y; }
        if (far > 16 * space * space) continue;
        const push = (heat * 0.6 * space * space) / far / Math.sqrt(far) * Math.sqrt(space);
        one.dx -= push * x; one.dy -= push * y; other.dx += push * x; other.dy += push * y;
      }
    }
    for (const { a, b, length } of pairs) {
      const x = b.x - a.x, y = b.y - a.y, far = Math.hypot(x, y) || 1, by = (heat * pull * (far - length)) / far;
      a.dx += by * x; a.dy += by * y; b.dx -= by * x; b.dy -= by * y;
    }
    for (const node of nodes) {
      const fast = Math.hypot(node.dx, node.dy), most = Math.min(1, (0.5 * space) / (fast || 1));
      node.x += node.dx * most; node.y += node.dy * most;
      node.dx *= 0.5; node.dy *= 0.5;
    }
  }
}

/** Spread places over the whole picture, each direction by itself; a row or a column stays in the middle. */
export function spread(places, width, height, margin) {
  const along = (name, size) => {
    const all = places.map((at) => at[name]), low = Math.min(...all), high = Math.max(...all);
    const scale = high - low > 1 ? (size - 2 * margin) / (high - low) : 0;
    for (const at of places) at[name] = size / 2 + scale * (at[name] - (low + high) / 2);
  };
  along("x", width); along("y", height);
}

/** Drag a picture about, and make it larger and smaller by wheel, two fingers, or a double click. */
export function movable(picture, inside) {
  let scale = 1, x = 0, y = 0;
  const fingers = new Map();
  const draw = () => inside.setAttribute("transform", `translate(${round(x)},${round(y)}) scale(${scale.toFixed(3)})`);
  const spot = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(picture.getScreenCTM().inverse());
  const larger = (by, at) => {
    const next = Math.max(0.4, Math.min(6, scale * by));
    x = at.x - ((at.x - x) * next) / scale; y = at.y - ((at.y - y) * next) / scale; scale = next;
    draw();
  };
  picture.addEventListener("wheel", (event) => { event.preventDefault(); larger(2 ** (-event.deltaY / 400), spot(event)); }, { passive: false });
  picture.addEventListener("dblclick", (event) => larger(event.shiftKey ? 0.5 : 2, spot(event)));
  picture.addEventListener("pointerdown", (event) => { fingers.set(event.pointerId, spot(event)); });
  picture.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    const now = spot(event), other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) larger(Math.hypot(now.x - other.x, now.y - other.y) / (Math.hypot(before.x - other.x, before.y - other.y) || 1), other);
    else { x += now.x - before.x; y += now.y - before.y; draw(); }
    fingers.set(event.pointerId, now);
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) picture.addEventListener(name, (event) => fingers.delete(event.pointerId));
}

/** An axis: ticks are [place, text], and what they count stands beside them. */
export function axis(ticks, { x = null, y = null, from, to, name, wide = null }) {
  const upright = x !== null;
  return svg("g", { class: "axis" },
    svg("line", upright ? { x1: x, x2: x, y1: from, y2: to } : { x1: from, x2: to, y1: y, y2: y }),
    ...ticks.flatMap(([at, text]) => [
      svg("line", upright ? { class: "across", x1: x, x2: wide ?? x, y1: at, y2: at } : { x1: at, x2: at, y1: y, y2: y + 4 }),
      svg("text", upright ? { x: x - 6, y: at + 4, "text-anchor": "end" } : { x: at, y: y + 16, "text-anchor": "middle" }, text),
    ]),
    name ? svg("text", upright ? { class: "unit", x: 4, y: to - 8 } : { class: "unit", x: to, y: y + 30, "text-anchor": "end" }, name) : null);
}
