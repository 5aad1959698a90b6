// What this site did since its node started: use, queue, ended jobs, exports and imports.

import { call } from "./api.js";
import { h, say, svg } from "./dom.js";
import { axis, moments, stairs, steps } from "./draw.js";
import { count, seconds } from "./format.js";
import { known } from "./main.js";
import { tell } from "./parts.js";

const EVERY_MS = 5000;
const WIDTH = 620, HEIGHT = 210, LEFT = 52, RIGHT = 12, TOP = 26, BOTTOM = 34;
const COLUMNS = ["atWallS", "slots", "usedSlots", "queued", "running", "done", "exported", "imported", "queueWaitS", "cpuShare", "memoryShare", "diskShare"];

const KEYS = { c0: "busy", c1: "off", c2: "waits" };

class Chart {
  /** `unit`: what the height counts; `text` tells a height; `most`: the highest there can be. */
  constructor(title, series, { bars = false, unit = "jobs", text = count, most = 0 } = {}) {
    Object.assign(this, { series, bars, unit, text, most });
    this.plot = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
    this.now = h("span", {});
    this.element = h("figure", {}, h("figcaption", {}, h("strong", {}, title), " ", h("span", { class: "legend" }, series.map(({ name, cls }) => h("span", {}, h("span", { class: `key ${KEYS[cls]}` }), name)), this.now)), this.plot);
    this.element.style.margin = "0";
  }

  draw(times, columns) {
    const first = times[0], last = Math.max(times[times.length - 1], first + 1), floor = HEIGHT - BOTTOM, right = WIDTH - RIGHT;
    const most = this.most || Math.max(this.text === count ? 1 : 1e-3, ...columns.map((column) => Math.max(...column)));
    const heights = steps(most, 4).filter((value) => this.text !== count || Number.isInteger(value)), top = Math.max(most, heights[heights.length - 1]);
    const x = (at) => LEFT + ((at - first) / (last - first)) * (right - LEFT);
    const y = (value) => floor - (value / top) * (floor - TOP);
    const drawn = [
      axis(moments(first, last, 6).map(([at, text]) => [x(at), text]), { y: floor, from: LEFT, to: right, name: "time of day" }),
      axis(heights.map((value) => [y(value), this.text(value)]), { x: LEFT, from: floor, to: TOP, name: this.unit, wide: right }),
    ];
    columns.forEach((column, at) => {
      const { cls } = this.series[at];
      if (this.bars) {
        const wide = Math.min(14, Math.max(1, (right - LEFT) / times.length / columns.length - 0.5));
        drawn.push(svg("g", {}, column.map((value, k) => (value > 0 ? svg("rect", { class: cls, width: wide, x: Math.max(LEFT, x(times[k]) - wide * (columns.length - at)), y: y(value), height: floor - y(value) }) : null))));
      } else {
        const points = column.map((value, k) => [x(times[k]), y(value)]);
        if (cls === "c0") drawn.push(svg("path", { class: "area", d: stairs(points, floor) }));
        drawn.push(svg("path", { class: `line ${cls}`, d: stairs(points) }));
      }
    });
    this.plot.replaceChildren(...drawn);
  }
}

/** What a count rose by in each interval; a node that started again counts from nought. */
const rises = (column) => column.map((value, at) => (at ? Math.max(0, value - column[at - 1]) : 0));

export class ActivityPage {
  constructor() {
    this.samples = Object.fromEntries(COLUMNS.map((name) => [name, []]));
    this.line = h("p", { class: "quiet" });
    this.trouble = h("p", { hidden: true });
    const share = (value) => `${Math.round(100 * value)} %`;
    this.charts = [
      [new Chart("Slots of this site", [{ name: "in use", cls: "c0" }, { name: "there", cls: "c1" }], { unit: "slots" }), ["usedSlots", "slots"], ""],
      [new Chart("Jobs here", [{ name: "running", cls: "c0" }, { name: "waiting", cls: "c2" }]), ["running", "queued"], ""],
      [new Chart("Throughput: jobs of groups submitted here that ended well", [{ name: "a minute", cls: "c0" }], { bars: true, unit: "jobs a minute", text: (value) => `${Math.round(value * 10) / 10}` }), ["done"], "pace"],
      [new Chart("Wait in the queue", [{ name: "mean of the jobs that left it", cls: "c2" }], { unit: "time", text: seconds }), ["queueWaitS"], ""],
      [new Chart("Jobs moved", [{ name: "exported", cls: "c2" }, { name: "taken from others", cls: "c0" }], { bars: true }), ["exported", "imported"], "rises"],
      [new Chart("The node's machine", [{ name: "processors", cls: "c0" }, { name: "memory", cls: "c2" }, { name: "disk of the data directory", cls: "c1" }], { unit: "in use", text: share, most: 1 }), ["cpuShare", "memoryShare", "diskShare"], ""],
    ];
    this.element = h("section", {}, h("h1", {}, "Activity"), this.trouble, this.line, h("div", { class: "charts" }, this.charts.map(([chart]) => chart.element)));
    this.timer = setInterval(() => this.look(), EVERY_MS);
    this.look();
  }

  close() { clearInterval(this.timer); }

  async look() {
    const { atWallS } = this.samples;
    try {
      const more = await call("Activity", { afterWallS: atWallS[atWallS.length - 1] ?? 0 });
      const came = more.atWallS?.length ?? 0;
      for (const name of COLUMNS) this.samples[name].push(...Array.from({ length: came }, (_, at) => Number(more[name]?.[at] ?? 0)));
      tell(this.trouble, "", false);
      if (came) this.draw();
    } catch (error) {
      tell(this.trouble, error.message, true);
    }
  }

  draw() {
    const { atWallS, exported, imported, done } = this.samples;
    const last = atWallS.length - 1;
    say(this.line, `${known.info?.site ?? ""} over ${seconds(atWallS[last] - atWallS[0])}; since the node started: ${count(done[last])} jobs done, ${count(exported[last])} exported, ${count(imported[last])} taken from others`);
    const pace = (column) => rises(column).map((value, at) => (at ? (60 * value) / Math.max(1, atWallS[at] - atWallS[at - 1]) : 0));
    const ways = { "": (column) => column, rises, pace };
    for (const [chart, names, way] of this.charts) chart.draw(atWallS, names.map((name) => ways[way](this.samples[name])));
  }

  update() {}
}
