// A site's four levels, who waits in them, and what the users have of them.

import { call } from "./api.js";
import { h, place, say, Table } from "./dom.js";
import { count, seconds, share } from "./format.js";
import { known } from "./main.js";
import { groupLink, tell } from "./parts.js";

const LEVELS = { Q1: "0.5 to 1", Q2: "0 to 0.5", Q3: "-0.5 to 0", Q4: "-1 to -0.5" };
const COLOURS = 7;
const EVERY_MS = 2000;

function starts(row) {
  const low = row.lowS ?? 0, high = row.highS ?? 0;
  if (low < 0) return "-";
  if (high === 0) return "now";
  return seconds(low) === seconds(high) ? seconds(low) : `${seconds(low)} to ${seconds(high)}`;
}

export class QueuesPage {
  constructor(site) {
    this.site = site;
    this.other = null;
    this.pick = h("select", { "aria-label": "site", onchange: () => { location.hash = `#/queues/${encodeURIComponent(this.pick.value)}`; } });
    this.line = h("p", { class: "quiet" });
    this.trouble = h("p", { hidden: true });
    this.levels = h("div", { class: "levels" });
    this.legend = h("p", { class: "legend" });
    this.classes = new Table(
      [
        { name: "Level", text: (row) => row.level },
        { name: "Priority", number: true, text: (row) => (row.priority ?? 0).toFixed(3) },
        { name: "User", text: (row) => row.user },
        { name: "Processors", number: true, text: (row) => count(row.processors) },
        { name: "Jobs", number: true, text: (row) => count(row.jobs) },
        { name: "Ready", number: true, text: (row) => count(row.ready) },
        { name: "Starts in", text: starts },
        { name: "Groups", draw: (cell, row) => place(cell, (row.parts ?? []).slice(0, 3).flatMap((part, at) => [at ? ", " : "", groupLink(part.split("/")[0])]), (row.parts ?? []).length > 3 ? ` and ${row.parts.length - 3} more` : "") },
      ],
      { key: (row) => `${row.level} ${row.user} ${row.processors} ${row.queue} ${row.priority} ${(row.parts ?? []).join()}`, empty: "Nothing waits." },
    );
    this.users = new Table(
      [
        { name: "User", text: (row) => row.user, sort: (row) => row.user },
        { name: "Quota", number: true, text: (row) => `${row.quota ?? 0}`, sort: (row) => row.quota ?? 0 },
        { name: "Queued", number: true, text: (row) => count(row.queued), sort: (row) => row.queued ?? 0 },
        { name: "Running", number: true, text: (row) => count(row.running), sort: (row) => row.running ?? 0 },
        { name: "Share queued", number: true, text: (row) => share(row.queuedShare) },
        { name: "Share of quota", number: true, text: (row) => share(row.quotaShare) },
        { name: "Share served", number: true, text: (row) => share(row.servedShare) },
      ],
      { key: (row) => row.user, empty: "No users have work here." },
    );
    this.element = h("section", {}, h("h1", {}, "Queues"), h("div", { class: "tools" }, h("label", {}, "of ", this.pick)), this.trouble, this.line, this.levels, this.legend, h("h2", {}, "What waits, best first"), this.classes.element, h("h2", {}, "Users"), this.users.element);
    if (site) {
      this.timer = setInterval(() => this.look(), EVERY_MS);
      this.look();
    }
  }

  close() { clearInterval(this.timer); }

  async look() {
    if (known.info && this.site === known.info.site) return;
    try {
      this.other = await call("Queue", { site: this.site });
      tell(this.trouble, "", false);
    } catch (error) {
      tell(this.trouble, error.message, true);
    }
    this.update();
  }

  update() {
    if (!known.info) return;
    const home = known.info.site;
    const names = known.sites.map((row) => row.site);
    if (this.pick.children.length !== names.length) place(this.pick, names.map((name) => h("option", { value: name }, name)));
    this.pick.value = this.site || home;
    const queue = !this.site || this.site === home ? known.queue : this.other;
    if (!queue) return;
    say(this.line, `${queue.site}, ${queue.mode} mode: ${count(queue.queued)} queued, ${count(queue.running)} running in ${count(queue.slots)} slots, ${count(queue.claimed)} claimed ahead${queue.note ? `; ${queue.site} ${queue.note}` : ""}`);
    const rows = queue.classes ?? [];
    this.bars(rows);
    this.classes.update(rows);
    this.users.update(queue.users ?? []);
  }

  /** One bar per level, its parts the users', widest bar the fullest level. */
  bars(rows) {
    const users = [...new Set(rows.map((row) => row.user))].sort();
    const colour = (user) => `u${Math.min(COLOURS, users.indexOf(user))}`;
    const by = Object.fromEntries(Object.keys(LEVELS).map((level) => [level, new Map()]));
    for (const row of rows) by[row.level]?.set(row.user, (by[row.level].get(row.user) ?? 0) + (row.jobs ?? 0));
    const sums = Object.fromEntries(Object.entries(by).map(([level, map]) => [level, [...map.values()].reduce((a, b) => a + b, 0)]));
    const most = Math.max(1, ...Object.values(sums));
    const parts = (map) => [...map].sort().map(([user, jobs]) => {
      const bar = h("i", { class: colour(user), title: `${user}: ${count(jobs)} jobs` });
      bar.style.width = `${(100 * jobs) / most}%`;
      return bar;
    });
    const text = JSON.stringify([users, Object.entries(by).map(([level, map]) => [level, ...map])]);
    if (text === this.drawn) return;
    this.drawn = text;
    place(this.levels, Object.entries(LEVELS).map(([level, bounds]) => h("div", { class: "level" },
      h("span", { class: "name" }, h("strong", {}, level), h("span", { class: "quiet" }, ` ${bounds}`)),
      h("div", { class: "bar", role: "img", "aria-label": [...by[level]].map(([user, jobs]) => `${user} ${count(jobs)}`).join(", ") || "empty" }, parts(by[level])),
      h("span", {}, count(sums[level])))));
    place(this.legend, users.slice(0, COLOURS).map((user) => h("span", {}, h("span", { class: `key ${colour(user)}` }), user)), users.length > COLOURS ? h("span", {}, h("span", { class: `key u${COLOURS}` }), `${users.length - COLOURS} others`) : null);
  }
}
