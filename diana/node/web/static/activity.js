// What this site did since its node started: use, queue, ended jobs, exports and imports.

import { call } from "./api.js";
import { h, say, svg } from "./dom.js";
import { count, seconds } from "./format.js";
import { known } from "./main.js";
import { tell } from "./parts.js";

const d3 = window.d3;
const EVERY_MS = 5000;
const WIDTH = 620, HEIGHT = 190, LEFT = 48, RIGHT = 8, TOP = 10, BOTTOM = 22;
const COLUMNS = ["atWallS", "slots", "usedSlots", "queued", "running", "done", "exported", "imported"];

class Chart {
  constructor(title, series, { bars = false } = {}) {
    Object.assign(this, { series, bars });
    this.plot = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
    this.now = h("span", {});
    this.element = h("figure", {}, h("figcaption", {}, h("strong", {}, title), " ", h("span", { class: "legend" }, series.map(({ name, cls }) => h("span", {}, h("span", { class: `key ${{ c0: "busy", c1: "off", c2: "waits" }[cls]}` }), name)), this.now)), this.plot);
    this.element.style.margin = "0";
  }

  draw(times, columns) {
    const x = d3.scaleTime().domain([times[0] * 1000, times[times.length - 1] * 1000]).range([LEFT, WIDTH - RIGHT]);
    const most = Math.max(1, ...columns.map((column) => d3.max(column) ?? 0));
    const y = d3.scaleLinear().domain([0, most]).nice(4).range([HEIGHT - BOTTOM, TOP]);
    const plot = d3.select(this.plot);
    plot.selectAll("*").remove();
    plot.append("g").attr("transform", `translate(0,${HEIGHT - BOTTOM})`).call(d3.axisBottom(x).ticks(6));
    plot.append("g").attr("transform", `translate(${LEFT},0)`).call(d3.axisLeft(y).ticks(4).tickFormat((value) => (Number.isInteger(value) ? count(value) : "")));
    columns.forEach((column, at) => {
      const { cls } = this.series[at];
      if (this.bars) {
        const wide = Math.min(14, Math.max(1, (WIDTH - LEFT - RIGHT) / times.length / columns.length - 0.5));
        const shown = column.map((value, k) => [value, x(times[k] * 1000)]).filter(([value]) => value > 0);
        plot.append("g").selectAll("rect").data(shown).enter().append("rect").attr("class", cls).attr("width", wide)
          .attr("x", ([, end]) => Math.max(LEFT, end - wide * (columns.length - at))).attr("y", ([value]) => y(value)).attr("height", ([value]) => HEIGHT - BOTTOM - y(value));
      } else {
        const line = d3.line().x((value, k) => x(times[k] * 1000)).y((value) => y(value)).curve(d3.curveStepAfter);
        if (cls === "c0") plot.append("path").attr("class", "area").attr("d", d3.area().x((value, k) => x(times[k] * 1000)).y0(HEIGHT - BOTTOM).y1((value) => y(value)).curve(d3.curveStepAfter)(column));
        plot.append("path").attr("class", `line ${cls}`).attr("d", line(column));
      }
    });
  }
}

/** What a count rose by in each interval; a node that started again counts from nought. */
const rises = (column) => column.map((value, at) => (at ? Math.max(0, value - column[at - 1]) : 0));

export class ActivityPage {
  constructor() {
    this.samples = Object.fromEntries(COLUMNS.map((name) => [name, []]));
    this.line = h("p", { class: "quiet" });
    this.trouble = h("p", { hidden: true });
    this.charts = [
      [new Chart("Slots", [{ name: "in use", cls: "c0" }, { name: "there", cls: "c1" }]), ["usedSlots", "slots"], false],
      [new Chart("Jobs here", [{ name: "running", cls: "c0" }, { name: "waiting", cls: "c2" }]), ["running", "queued"], false],
      [new Chart("Jobs of groups submitted here that ended well", [{ name: "in each interval", cls: "c0" }], { bars: true }), ["done"], true],
      [new Chart("Jobs moved", [{ name: "exported", cls: "c2" }, { name: "taken from others", cls: "c0" }], { bars: true }), ["exported", "imported"], true],
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
    for (const [chart, names, rising] of this.charts) chart.draw(atWallS, names.map((name) => (rising ? rises(this.samples[name]) : this.samples[name])));
  }

  update() {}
}
