// The sites as a map: near ones are near, lines are links, what moves moves.

import { h, svg, say, Table } from "./dom.js";
import { bytes, count, rate, seconds, tone } from "./format.js";
import { known } from "./main.js";
import { linked, siteLink, state } from "./parts.js";

const d3 = window.d3;
const MARGIN = 50;
const FAST_S = 0.03, SLOW_S = 0.15;
const LABELLED = 60;
const places = new Map();
let WIDTH = 1000, HEIGHT = 560;

/** A phone's map is as high as wide, so that its words can be read. */
function sized() {
  const before = WIDTH;
  [WIDTH, HEIGHT] = window.matchMedia("(max-width: 640px)").matches ? [480, 520] : [1000, 560];
  if (WIDTH !== before) places.clear();
}

const radius = (site) => 9 + 3.2 * Math.log2(1 + (site.slots ?? 0) / 2);

function kind(line) {
  if (!(line.rttS >= 0)) return "unknown";
  return line.rttS < FAST_S ? "fast" : line.rttS < SLOW_S ? "middling" : "slow";
}

/** Where the sites are drawn: distances follow round trips. Known places stay about where they were. */
function laidOut(sites, lines) {
  const nodes = sites.map((site, at) => {
    const angle = (2 * Math.PI * at) / Math.max(1, sites.length);
    const old = places.get(site.site);
    return { id: site.site, r: radius(site), x: old?.x ?? WIDTH / 2 + 220 * Math.cos(angle), y: old?.y ?? HEIGHT / 2 + 160 * Math.sin(angle) };
  });
  const by = new Set(nodes.map((node) => node.id));
  const links = lines.filter((line) => by.has(line.a) && by.has(line.b)).map((line) => ({ source: line.a, target: line.b, rtt: line.rttS }));
  const crowd = Math.max(0.35, Math.min(1, 12 / Math.sqrt(nodes.length * 4)));
  d3.forceSimulation(nodes)
    .force("link", d3.forceLink(links).id((node) => node.id).distance((link) => crowd * (110 + 90 * Math.max(0, 2 + Math.log10(Math.max(0.001, link.rtt >= 0 ? link.rtt : 0.05))))).strength(Math.min(0.5, 3 / Math.max(1, nodes.length))))
    .force("charge", d3.forceManyBody().strength(-700 * crowd))
    .force("apart", d3.forceCollide((node) => node.r + 14 * crowd))
    .force("x", d3.forceX(WIDTH / 2).strength(0.06)).force("y", d3.forceY(HEIGHT / 2).strength(0.12))
    .stop().tick(nodes.length > 60 ? 120 : 250);
  places.clear();
  for (const node of nodes) places.set(node.id, { x: node.x, y: node.y });
  fitted();
}

/** Few sites are spread over the map, many drawn together onto it. */
function fitted() {
  const all = [...places.values()];
  const [left, right] = d3.extent(all, (at) => at.x), [top, bottom] = d3.extent(all, (at) => at.y);
  const scale = Math.min(1.8, (WIDTH - 2 * MARGIN) / Math.max(1, right - left), (HEIGHT - 2 * MARGIN) / Math.max(1, bottom - top));
  for (const at of all) {
    at.x = WIDTH / 2 + scale * (at.x - (left + right) / 2);
    at.y = HEIGHT / 2 + scale * (at.y - (top + bottom) / 2);
  }
}

export class GridPage {
  constructor() {
    sized();
    this.lines = svg("g"); this.moves = svg("g"); this.nodes = svg("g");
    this.all = svg("g", {}, this.lines, this.moves, this.nodes);
    this.map = svg("svg", { class: "map", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "map of the sites and the links between them" }, this.all);
    this.zoom = d3.zoom().scaleExtent([0.2, 6]).on("zoom", () => this.all.setAttribute("transform", d3.event.transform));
    d3.select(this.map).call(this.zoom);
    this.total = h("p", { class: "quiet" });
    this.left = h("p", { class: "quiet" });
    this.legend = h("p", { class: "legend" },
      h("span", {}, h("span", { class: "key good" }), `round trip below ${FAST_S * 1000} ms`), h("span", {}, h("span", { class: "key waits" }), `below ${SLOW_S * 1000} ms`), h("span", {}, h("span", { class: "key bad" }), "above"),
      h("span", {}, "dotted: not measured; thicker: more bytes per second"), h("span", {}, h("span", { class: "key accent" }), "data are on their way"), h("span", {}, "filled: slots in use; small squares: this site's machines"));
    this.table = new Table(
      [
        { name: "Site", draw: (cell, row) => linked(cell, siteLink(row.site)), sort: (row) => row.site },
        { name: "State", draw: (cell, row) => state(cell, row.state), sort: (row) => row.state },
        { name: "Slots", number: true, text: (row) => count(row.slots), sort: (row) => row.slots ?? 0 },
        { name: "Free", number: true, text: (row) => count(row.freeSlots), sort: (row) => row.freeSlots ?? 0 },
        { name: "Queued", number: true, text: (row) => count(row.queuedJobs), sort: (row) => row.queuedJobs ?? 0 },
        { name: "Running", number: true, text: (row) => count(row.runningJobs), sort: (row) => row.runningJobs ?? 0 },
        { name: "Work ahead", number: true, text: (row) => seconds(row.workAheadS ?? 0), sort: (row) => row.workAheadS ?? 0, cls: "optional" },
        { name: "Round trip", number: true, text: (row) => (row.home ? "-" : seconds(row.rttS ?? -1)), sort: (row) => row.rttS ?? -1 },
        { name: "From there", number: true, text: (row) => (row.home ? "-" : rate(row.bytesPerS ?? -1)), sort: (row) => row.bytesPerS ?? -1, cls: "optional" },
        { name: "Machines", number: true, text: (row) => (row.machines ? count(row.machines) : "-"), sort: (row) => row.machines ?? 0, cls: "optional" },
        { name: "Speed", number: true, text: (row) => `${row.speed ?? 0}`, sort: (row) => row.speed ?? 0, cls: "optional" },
        { name: "Note", text: (row) => row.note ?? "", cls: "text optional" },
      ],
      { key: (row) => row.site, empty: "No site is known." },
    );
    this.element = h("section", {}, h("h1", {}, "Grid"), this.total, this.map, this.legend, this.left, h("h2", {}, "Sites"), this.table.element);
    this.marks = new Map();
    this.edges = new Map();
  }

  update() {
    const { sites, links } = known;
    const slots = sites.reduce((sum, row) => sum + (row.slots ?? 0), 0);
    const free = sites.reduce((sum, row) => sum + (row.freeSlots ?? 0), 0);
    const queued = sites.reduce((sum, row) => sum + (row.queuedJobs ?? 0), 0);
    const running = sites.reduce((sum, row) => sum + (row.runningJobs ?? 0), 0);
    say(this.total, `${count(sites.length)} sites with ${count(slots)} slots, ${count(slots - free)} in use; ${count(running)} jobs run, ${count(queued)} wait, as far as this site has heard`);
    say(this.left, links.leftOut ? `${count(links.leftOut)} more links are known and not drawn` : "");
    const shape = JSON.stringify([sites.map((row) => row.site), links.lines.map((line) => [line.a, line.b, kind(line)])]);
    if (shape !== this.shape) {
      this.shape = shape;
      laidOut(sites, links.lines);
    }
    this.edgesDrawn(links.lines);
    this.sitesDrawn(sites);
    this.table.update(sites);
  }

  edgesDrawn(lines) {
    const seen = new Set();
    for (const line of lines) {
      const from = places.get(line.a), to = places.get(line.b);
      if (!from || !to) continue;
      const key = `${line.a} ${line.b}`;
      seen.add(key);
      let edge = this.edges.get(key);
      if (!edge) {
        edge = { link: svg("line", {}, svg("title")), moves: null };
        this.edges.set(key, edge);
        this.lines.append(edge.link);
      }
      const width = 0.8 + Math.max(0, Math.log10((line.bytesPerS > 0 ? line.bytesPerS : 1e5) / 1e5));
      this.along(edge.link, from, to, `link ${kind(line)}`, width);
      say(edge.link.firstChild, `${line.a} – ${line.b}: round trip ${seconds(line.rttS ?? -1)}, ${rate(line.bytesPerS ?? -1)}${line.loss > 0 ? `, ${(100 * line.loss).toFixed(1)} % lost` : ""}${line.backlogBytes ? `, ${bytes(line.backlogBytes)} on their way` : ""}`);
      if (line.backlogBytes && !edge.moves) this.moves.append((edge.moves = svg("line")));
      if (!line.backlogBytes && edge.moves) { edge.moves.remove(); edge.moves = null; }
      if (edge.moves) this.along(edge.moves, from, to, line.to === line.a ? "moves" : "moves back", 3);
    }
    for (const [key, edge] of this.edges) if (!seen.has(key)) { edge.link.remove(); edge.moves?.remove(); this.edges.delete(key); }
  }

  along(element, from, to, cls, width) {
    const values = { x1: from.x.toFixed(1), y1: from.y.toFixed(1), x2: to.x.toFixed(1), y2: to.y.toFixed(1), class: cls, "stroke-width": width.toFixed(1) };
    for (const [name, value] of Object.entries(values)) if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }

  sitesDrawn(sites) {
    const seen = new Set();
    for (const site of sites) {
      const at = places.get(site.site);
      if (!at) continue;
      seen.add(site.site);
      let mark = this.marks.get(site.site);
      if (!mark) {
        mark = { body: svg("circle", { class: "body" }), used: svg("path", { class: "used" }), label: svg("text"), title: svg("title"), machines: svg("g"), told: "" };
        mark.group = svg("g", { class: site.home ? "home" : null }, mark.body, mark.used, mark.machines, mark.label);
        mark.link = svg("a", { href: `#/site/${encodeURIComponent(site.site)}`, tabindex: "0" }, mark.title, mark.group);
        this.marks.set(site.site, mark);
        this.nodes.append(mark.link);
        if (sites.length <= LABELLED || site.home) say(mark.label, site.site);
      }
      const machines = site.home ? known.peers?.machines ?? [] : [];
      const told = JSON.stringify([site, at, machines.map((machine) => machine.state)]);
      if (told === mark.told) continue;
      mark.told = told;
      const r = radius(site);
      const used = site.slots ? Math.min(1, Math.max(0, 1 - (site.freeSlots ?? 0) / site.slots)) : 0;
      mark.group.setAttribute("transform", `translate(${at.x.toFixed(1)},${at.y.toFixed(1)})`);
      mark.group.dataset.tone = tone(site.state);
      mark.body.setAttribute("r", r);
      mark.used.setAttribute("d", d3.arc()({ innerRadius: 0, outerRadius: r - 2.5, startAngle: 0, endAngle: 2 * Math.PI * used }) ?? "");
      mark.label.setAttribute("y", r + 13);
      say(mark.title, `${site.site}: ${site.state}, ${count((site.slots ?? 0) - (site.freeSlots ?? 0))} of ${count(site.slots)} slots in use, ${count(site.queuedJobs)} jobs wait${site.note ? `; ${site.note}` : ""}`);
      mark.machines.replaceChildren(...(machines.length > 1 ? machines.slice(0, 24).map((machine, k) => svg("rect", { class: machine.state === "here" ? "machine" : "machine away", x: -3 + (r + 7) * Math.cos((2 * Math.PI * k) / 24 - Math.PI / 2), y: -3 + (r + 7) * Math.sin((2 * Math.PI * k) / 24 - Math.PI / 2), width: 6, height: 6 })) : []));
    }
    for (const [name, mark] of this.marks) if (!seen.has(name)) { mark.link.remove(); this.marks.delete(name); }
  }
}
