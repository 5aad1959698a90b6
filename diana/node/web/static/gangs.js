// The gangs of a group: who holds processors, who is waited for and since when, and how far apart their components began.

import { call } from "./api.js";
import { h, place, say, Table } from "./dom.js";
import { count, seconds } from "./format.js";
import { linked, siteLink, state, tell } from "./parts.js";

const WORDS = { offered: "asked", staging: "staging inputs", later: "claimed later", waits: "waited for", silent: "silent", holds: "holds", starts: "starting", runs: "running", done: "done", failed: "failed", ended: "ended" };
const LACKS = ["waits", "silent", "offered", "staging"];

const sites = (gang, states) => [...new Set((gang.components ?? []).filter((at) => states.includes(at.state)).map((at) => at.site))].join(", ");

/** One sentence on a gang that has not begun. */
function waits(gang) {
  if (!gang.components?.length) return `no place yet, ${gang.againS > 0 ? `tried again in ${seconds(gang.againS)} at the latest` : "tried at the next scan"} (queue ${gang.level})`;
  const [holds, lacks] = [sites(gang, ["holds"]), sites(gang, LACKS)];
  const since = Math.max(0, ...gang.components.filter((at) => LACKS.includes(at.state)).map((at) => at.sinceS ?? 0));
  return [
    lacks ? (since > 0 ? `has waited ${seconds(since)} for ${lacks}` : `waits for ${lacks}`) : "all hold their processors",
    holds && lacks ? `${holds} ${holds.includes(",") ? "hold" : "holds"} processors` : "", gang.givesUpS > 0 ? `given up in ${seconds(gang.givesUpS)} if it has not begun` : "",
  ].filter(Boolean).join("; ");
}

/** The same of one that was let go. */
function ran(gang) {
  const many = gang.components.reduce((sum, at) => sum + (at.components ?? 0), 0);
  return [
    gang.over ? "over" : gang.sinceS > 0 ? `let go ${seconds(gang.sinceS)} ago` : "let go",
    (gang.beganS ?? 0) >= 0 ? `began ${seconds(gang.beganS ?? 0)} after submission` : "",
    (gang.spreadS ?? 0) >= 0 && many > 1 ? `start spread ${seconds(gang.spreadS ?? 0)}` : "",
  ].filter(Boolean).join("; ");
}

function start(at) {
  if (at.state === "waits") return at.expectedS > 0 ? (at.sinceS > at.expectedS ? "longer than expected" : `expected after ${seconds(at.expectedS)}`) : "";
  if (!at.let || (at.behindS ?? 0) < 0) return "";
  return at.behindS > 0 ? `${seconds(at.behindS)} later` : "first";
}

/** The place of each component as it was decided, and why. */
export function placedGang(gang) {
  const table = new Table(
    [
      { name: "Component", text: (row) => row.name || `${row.at + 1}` },
      { name: "Site", draw: (cell, row) => linked(cell, siteLink(row.site)) },
      { name: "Processors", number: true, text: (row) => count(row.processors) },
      { name: "Free in", number: true, text: (row) => seconds(row.waitS ?? 0) },
      { name: "Files from", text: (row) => (row.sources ?? []).join(", ") },
      { name: "Transfer", number: true, text: (row) => seconds(row.transferS ?? 0) },
      { name: "Why", text: (row) => row.reason ?? "", cls: "text" },
    ],
    { key: (row) => row.at, caption: "its components" },
  );
  table.update((gang.components ?? []).map((row, at) => ({ ...row, at })));
  return table.element;
}

class OneGang {
  constructor() {
    this.title = h("h3");
    this.table = new Table(
      [
        { name: "Site", draw: (cell, row) => linked(cell, siteLink(row.site)) },
        { name: "Components", number: true, text: (row) => count(row.components) },
        { name: "Processors", number: true, text: (row) => count(row.processors) },
        { name: "State", draw: (cell, row) => state(cell, WORDS[row.state] ?? row.state) },
        { name: "For", number: true, text: (row) => (row.sinceS > 0 ? seconds(row.sinceS) : "") },
        { name: "Start", text: start },
      ],
      { key: (row) => row.key, empty: "" },
    );
    this.element = h("div", { class: "gang" }, this.title, this.table.element);
  }

  update(gang, let_go) {
    say(this.title, `Gang ${count(gang.gang)}${gang.tries ? `, try ${count(gang.tries + 1)}` : ""}: ${let_go ? ran(gang) : waits(gang)}`);
    this.table.update((gang.components ?? []).map((at, place) => ({ ...at, let: let_go, key: `${at.site} ${place}` })));
  }
}

/** The states of a job that has not ended. */
const STANDS = new Set(["waiting", "held", "given", "queued", "running"]);

export class Gangs {
  /** `job`: the gang of that job alone is shown; null: the first ones. */
  constructor(group, job) {
    Object.assign(this, { group, job, asked: 0, kept: new Map() });
    this.trouble = h("p", { hidden: true, role: "status" });
    this.which = h("input", { type: "number", min: "0", step: "1", value: job ?? "0", inputmode: "numeric" });
    this.all = h("button", { type: "button", hidden: job === null, onclick: () => this.go(null) }, "All gangs");
    this.line = h("span", { class: "quiet", role: "status" });
    const seek = h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); this.go(Math.max(0, Math.trunc(Number(this.which.value)) || 0)); } },
      h("label", {}, "Gang of job ", this.which), h("button", { type: "submit" }, "Show gang"), this.all, this.line);
    this.list = h("div");
    this.inside = h("div", { hidden: true }, h("h2", {}, "Its gangs"), seek);
    this.element = h("div", {}, this.inside, this.trouble, this.list);
  }

  go(job) {
    location.hash = `#/group/${encodeURIComponent(this.group)}${job === null ? "" : `.${job}`}`;
  }

  /** As the group stands, and as it explains itself. */
  async look(status, explained) {
    const gangs = status?.gangs ?? 0;
    this.inside.hidden = !gangs;
    if (!gangs) return this.job === null || !status ? undefined : tell(this.trouble, `${this.group}.${this.job} is no component of a gang: the jobs of ${this.group} run each by itself.`, false);
    if (this.job === null) return this.draw(explained, gangs);
    const asked = ++this.asked;
    try {
      const one = await call("Explain", { group: `${this.group}.${this.job}` });
      if (asked !== this.asked) return undefined;
      tell(this.trouble, "", false);
      return this.draw(one, gangs);
    } catch (error) {
      place(this.list);
      this.kept.clear();
      return tell(this.trouble, error.message, true);
    }
  }

  draw(found, gangs) {
    const rows = [...(found.gangs ?? []).map((gang) => [gang, false]), ...(found.begun ?? []).map((gang) => [gang, true])];
    const kept = new Map();
    for (const [gang, let_go] of rows) {
      // A gang one component of which is over may be both, for a moment.
      const key = `${gang.gang ?? 0} ${let_go}`;
      const one = this.kept.get(key) ?? new OneGang();
      one.update({ ...gang, gang: gang.gang ?? 0 }, let_go);
      kept.set(key, one);
    }
    if ([...kept.keys()].join() !== [...this.kept.keys()].join()) place(this.list, [...kept.values()].map((one) => one.element));
    this.kept = kept;
    const stands = STANDS.has(found.job?.state) ? "It is held, or being taken back." : "It is over, and no start of it is known.";
    say(this.line, this.job === null ? `${count(rows.length)} of ${count(gangs)}` : rows.length ? "" : stands);
  }
}
