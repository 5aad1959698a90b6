// The sites as a map: near ones are near, lines are links, what moves moves.

import { h, svg, say, Table } from "./dom.js";
import { movable, settle, slice, spread } from "./draw.js";
import { bytes, count, rate, seconds, tone } from "./format.js";
import { known } from "./main.js";
import { linked, siteLink, state } from "./parts.js";

const MARGIN = 50;
const FAST_S = 0.03, SLOW_S = 0.15;
const LABELLED = 60;
const places = new Map();
let WIDTH = 1000, HEIGHT = 560;

/** The picture has the shape of its frame, and a phone's is as high as wide, so that its words can be read. */
function sized() {
  const before = WIDTH;
  const wide = Math.min(1500, window.innerWidth) - 32, high = Math.min(0.62 * window.innerHeight, 560);
  [WIDTH, HEIGHT] = window.matchMedia("(max-width: 640px)").matches ? [480, 520] : [Math.round((560 * wide) / high), 560];
  if (WIDTH !== before) places.clear();
}

/** Many sites are drawn smaller. */
const radius = (site) => (9 + 3.2 * Math.log2(1 + (site.slots ?? 0) / 2)) * Math.min(1, Math.max(0.35, 6 / Math.sqrt(known.sites.length)));

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
  const crowd = Math.max(0.35, Math.min(1, 12 / Math.sqrt(nodes.length * 4)));
  const links = lines.map((line) => ({ a: line.a, b: line.b, length: crowd * (110 + 90 * Math.max(0, 2 + Math.log10(Math.max(0.001, line.rttS >= 0 ? line.rttS : 0.05)))) }));
  settle(nodes, links, WIDTH, HEIGHT, nodes.length > 60 ? 120 : 250);
  places.clear();
  for (const node of nodes) places.set(node.id, { x: node.x, y: node.y });
  spread([...places.values()], WIDTH, HEIGHT, MARGIN);
}

const WEIGHTS = [[1e6, "1 MB/s"], [1e8, "100 MB/s"]];
const weight = (bytesPerS) => 0.8 + 1.4 * Math.max(0, Math.log10((bytesPerS > 0 ? bytesPerS : 1e5) / 1e5));
const drawnKey = (width, cls) => svg("svg", { class: "linekey", viewBox: "0 0 26 10", "aria-hidden": "true" }, svg("line", { class: cls, x1: 1, x2: 25, y1: 5, y2: 5, "stroke-width": width }));

export class GridPage {
  constructor() {
    sized();
    this.lines = svg("g"); this.moves = svg("g"); this.nodes = svg("g");
    this.all = svg("g", {}, this.lines, this.moves, this.nodes);
    this.map = svg("svg", { class: "map", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "map of the sites and the links between them" }, this.all);
    movable(this.map, this.all);
    this.total = h("p", { class: "quiet" });
    this.left = h("p", { class: "quiet" });
    this.alone = h("p", { hidden: true }, "This site knows no other yet: ", h("code", {}, "diana invite"), " makes a token with which one joins.");
    this.legend = h("p", { class: "legend" },
      h("span", {}, h("span", { class: "key good" }), `round trip below ${FAST_S * 1000} ms`), h("span", {}, h("span", { class: "key waits" }), `below ${SLOW_S * 1000} ms`), h("span", {}, h("span", { class: "key bad" }), "above"),
      h("span", {}, drawnKey(1, "link unknown"), "not measured"),
      ...WEIGHTS.map(([bytesPerS, text]) => h("span", {}, drawnKey(weight(bytesPerS), "link"), text)), h("span", {}, h("span", { class: "key accent" }), "data are on their way"), h("span", {}, "filled: slots in use; small squares: this site's machines"));
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
    this.element = h("section", {}, h("h1", {}, "Grid"), this.total, this.alone, this.map, this.legend, this.left, h("h2", {}, "Sites"), this.table.element);
    this.marks = new Map();
    this.edges = new Map();
  }

  update() {
    const { sites, links } = known;
    const slots = sites.reduce((sum, row) => sum + (row.slots ?? 0), 0);
    const free = sites.reduce((sum, row) => sum + (row.freeSlots ?? 0), 0);
    const queued = sites.reduce((sum, row) => sum + (row.queuedJobs ?? 0), 0);
    const running = sites.reduce((sum, row) => sum + (row.runningJobs ?? 0), 0);
    say(this.total, `${count(sites.length)} ${sites.length === 1 ? "site" : "sites"} with ${count(slots)} slots, ${count(slots - free)} in use; ${count(running)} jobs run, ${count(queued)} wait, as far as this site has heard`);
    // A map of one place shows nothing.
    const alone = sites.length === 1 && (sites[0].machines ?? 1) <= 1;
    this.alone.hidden = !alone;
    for (const drawn of [this.map, this.legend]) drawn.toggleAttribute("hidden", alone);
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
      const width = weight(line.bytesPerS);
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
      mark.used.setAttribute("d", slice(r - 2.5, used));
      mark.label.setAttribute("y", r + 15);
      say(mark.title, `${site.site}: ${site.state}, ${count((site.slots ?? 0) - (site.freeSlots ?? 0))} of ${count(site.slots)} slots in use, ${count(site.queuedJobs)} jobs wait${site.note ? `; ${site.note}` : ""}`);
      mark.machines.replaceChildren(...(machines.length > 1 ? machines.slice(0, 24).map((machine, k) => svg("rect", { class: machine.state === "here" ? "machine" : "machine away", x: -3 + (r + 7) * Math.cos((2 * Math.PI * k) / 24 - Math.PI / 2), y: -3 + (r + 7) * Math.sin((2 * Math.PI * k) / 24 - Math.PI / 2), width: 6, height: 6 })) : []));
    }
    for (const [name, mark] of this.marks) if (!seen.has(name)) { mark.link.remove(); this.marks.delete(name); }
  }
}
