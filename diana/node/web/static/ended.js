// The jobs of a group that ended: a page at a time, from any job on, of all or of those that ended in one way.

import { stream } from "./api.js";
import { h, place, say, Table } from "./dom.js";
import { bytes, count, seconds } from "./format.js";
import { state, tell } from "./parts.js";

const PAGE = 50;
const OUTCOMES = { ended: "all that ended", failed: "failed", cancelled: "cancelled", held: "held: outcome unknown", done: "done" };

export class EndedJobs {
  constructor(group, log) {
    this.group = group;
    this.first = 0;
    this.before = [];
    this.next = null;
    this.asked = 0;
    this.outcome = "";
    this.trouble = h("p", { hidden: true });
    this.choice = h("select", { onchange: () => this.go(this.choice.value, 0, []) }, Object.entries(OUTCOMES).map(([value, text]) => h("option", { value }, text)));
    this.from = h("input", { type: "number", min: "0", step: "1", value: "0", inputmode: "numeric" });
    this.back = h("button", { type: "button", disabled: true, onclick: () => this.go(this.outcome, this.before.at(-1) ?? 0, this.before.slice(0, -1)) }, "Previous");
    this.on = h("button", { type: "button", disabled: true, onclick: () => this.go(this.outcome, this.next, [...this.before, this.first]) }, "Next");
    this.line = h("span", { class: "quiet", role: "status" });
    const seek = h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); this.go(this.outcome, Math.max(0, Math.trunc(Number(this.from.value)) || 0), []); } },
      h("label", {}, "Show ", this.choice), h("label", {}, "from job ", this.from), h("button", { type: "submit" }, "Go"), this.back, this.on, this.line);
    this.table = new Table(
      [
        { name: "Job", number: true, draw: (cell, row) => place(cell, h("button", { type: "button", onclick: () => log(row.index) }, `${group}.${row.index}`)), sort: (row) => row.index },
        { name: "Outcome", draw: (cell, row) => state(cell, row.outcome), sort: (row) => row.outcome },
        { name: "Exit", number: true, text: (row) => row.signal ? signalName(row.signal) : row.began || row.exit ? `${row.exit}` : "", sort: (row) => row.exit },
        { name: "Site", text: (row) => row.site || "never ran", sort: (row) => row.site },
        { name: "Attempt", number: true, text: (row) => (row.site ? `${row.attempt}` : ""), sort: (row) => row.attempt },
        { name: "Ran", number: true, text: (row) => (row.began ? seconds(row.ran) : ""), sort: (row) => row.ran },
        { name: "CPU", number: true, text: (row) => (row.began ? seconds(row.cpu) : ""), sort: (row) => row.cpu },
        { name: "Memory", number: true, text: (row) => (row.began ? bytes(row.rss) : ""), sort: (row) => row.rss },
        { name: "Error", text: (row) => row.error, cls: "text" },
      ],
      { key: (row) => row.index, empty: "No such job has ended.", page: PAGE },
    );
    this.element = h("div", {}, seek, this.trouble, this.table.element);
  }

  async go(outcome, first, before) {
    Object.assign(this, { outcome, first, before });
    await this.show();
  }

  /** The page that is looked at, as it is now. What failed comes first to whoever has chosen nothing yet. */
  async look(status) {
    this.status = status ?? this.status;
    if (!this.outcome) this.outcome = (this.status?.failed ?? 0) > 0 ? "failed" : "ended";
    await this.show();
  }

  async show() {
    const asked = ++this.asked;
    const rows = [];
    try {
      // One more than is shown says whether the page is the last one, and where the next begins.
      await stream("Results", { group: this.group, outcome: this.outcome, first: this.first, most: PAGE + 1 }, (chunk) => rows.push(...rowsOf(chunk)));
      tell(this.trouble, "", false);
    } catch (error) {
      tell(this.trouble, error.message, true);
      return;
    }
    // What was asked for meanwhile counts.
    if (asked !== this.asked) return;
    rows.sort((a, b) => a.index - b.index);
    this.next = rows[PAGE]?.index ?? null;
    this.table.update(rows.slice(0, PAGE));
    this.choice.value = this.outcome;
    if (document.activeElement !== this.from) this.from.value = `${this.first}`;
    this.back.disabled = !this.before.length && this.first === 0;
    this.on.disabled = this.next === null;
    // Jobs on hold are counted as held as well, and have not ended.
    say(this.line, this.outcome === "held" ? "" : `of ${count(this.counted())}`);
  }

  counted() {
    const of = this.status ?? {};
    return this.outcome === "ended" ? (of.done ?? 0) + (of.failed ?? 0) + (of.cancelled ?? 0) : of[this.outcome] ?? 0;
  }
}

// Of these one that was given to a machine and never began has one time for both its start and its end.
const MAY_NOT_BEGIN = ["cancelled", "not_started", "staging_failed"];

function rowsOf(chunk) {
  const errors = new Map((chunk.errors ?? []).map((error) => [Number(error.index ?? 0), error.text]));
  return (chunk.indices ?? []).map((index, at) => ({
    index: Number(index), attempt: Number(chunk.attempts?.[at] ?? 0), outcome: (chunk.outcomes?.[at] ?? "").toLowerCase(), exit: chunk.exitCodes?.[at] ?? 0, signal: chunk.signals?.[at] ?? 0, site: chunk.site ?? "",
    began: Boolean(chunk.site) && (!MAY_NOT_BEGIN.includes((chunk.outcomes?.[at] ?? "").toLowerCase()) || (chunk.endedS?.[at] ?? 0) > (chunk.startedS?.[at] ?? 0)),
    ran: Math.max(0, (chunk.endedS?.[at] ?? 0) - (chunk.startedS?.[at] ?? 0)), cpu: chunk.cpuS?.[at] ?? 0, rss: Number(chunk.maxRssBytes?.[at] ?? 0), error: errors.get(Number(index)) ?? "",
  }));
}

const SIGNALS = { 1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 24: "XCPU", 25: "XFSZ", 31: "SYS" };

function signalName(number) {
  return SIGNALS[number] ? `SIG${SIGNALS[number]}` : `signal ${number}`;
}
