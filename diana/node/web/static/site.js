// One site: how it fares, its links, and for this node's own its machines, checks and the drain.

import { call } from "./api.js";
import { h, place, say, Table } from "./dom.js";
import { count, rate, seconds } from "./format.js";
import { known } from "./main.js";
import { act, ask, facts, linked, siteLink, state, tell } from "./parts.js";

const EVERY_MS = 5000;

const tried = (row) => (!row.untilWallS ? "not by itself" : row.untilWallS > known.now() ? `in ${seconds(row.untilWallS - known.now())}` : "now");

export class SitePage {
  constructor(site) {
    this.site = site;
    this.links = [];
    this.facts = h("dl", { class: "facts" });
    this.note = h("p", { class: "note", hidden: true });
    this.trouble = h("p", { hidden: true });
    this.done = h("p", { hidden: true, role: "status" });
    this.buttons = h("div", { class: "tools" });
    this.machines = new Table(
      [
        { name: "Machine", text: (row) => row.machine },
        { name: "Role", text: (row) => row.role },
        { name: "State", draw: (cell, row) => state(cell, row.state) },
        { name: "Slots", number: true, text: (row) => count(row.slots) },
        { name: "In use", number: true, text: (row) => count(row.usedSlots) },
        { name: "Jobs", number: true, text: (row) => count(row.jobs) },
        { name: "Note", text: (row) => row.note ?? "", cls: "text" },
      ],
      { key: (row) => row.machine },
    );
    this.linkTable = new Table(
      [
        { name: "From", draw: (cell, row) => linked(cell, siteLink(row.source)), sort: (row) => row.source },
        { name: "To", draw: (cell, row) => linked(cell, siteLink(row.target)), sort: (row) => row.target },
        { name: "Round trip", number: true, text: (row) => seconds(row.rttS ?? 0), sort: (row) => row.rttS ?? 0 },
        { name: "Throughput", number: true, text: (row) => rate(row.bytesPerS ?? 0), sort: (row) => row.bytesPerS ?? 0 },
        { name: "Lost", number: true, text: (row) => (row.loss >= 0 ? `${(100 * (row.loss ?? 0)).toFixed(1)} %` : "-") },
        { name: "Forecast error", number: true, text: (row) => (row.error >= 0 ? `${Math.round(100 * (row.error ?? 0))} %` : "-") },
        { name: "Forecast by", text: (row) => row.predictor ?? "" },
        { name: "Samples", number: true, text: (row) => count(Number(row.samples ?? 0)) },
        { name: "Measured", number: true, text: (row) => (row.ageS >= 0 ? `${seconds(row.ageS ?? 0)} ago` : "-") },
        { name: "By", text: (row) => (row.told ? row.target : "this node") },
      ],
      { key: (row) => `${row.source} ${row.target}`, empty: "No link of it is known." },
    );
    this.guarded = new Table(
      [
        { name: "Group", text: (row) => row.group || "any that is new" },
        { name: "At", text: (row) => (row.machine ? `machine ${row.machine}` : "the whole site") },
        { name: "State", draw: (cell, row) => state(cell, row.stand) },
        { name: "Since", number: true, moving: true, text: (row) => `${seconds(Math.max(0, known.now() - row.sinceWallS))} ago` },
        { name: "One job is tried", number: true, moving: true, text: (row) => tried(row) },
        { name: "Why", text: (row) => row.why ?? "", cls: "text" },
        { name: "Lifted by", text: (row) => row.lifts ?? "", cls: "text" },
      ],
      { key: (row) => `${row.group ?? ""} ${row.machine ?? ""}` },
    );
    this.guard = h("div", { hidden: true }, h("h2", {}, "Held back by the black-hole guard"), this.guarded.element, this.guardedMore = h("p", { class: "quiet" }));
    this.checks = h("div");
    this.home = h("div", { hidden: true }, h("h2", {}, "Machines"), this.machines.element, h("h2", {}, "Checks"), this.checks);
    this.element = h("section", {}, h("h1", {}, site), this.trouble, this.facts, this.note, this.buttons, this.done, this.guard, this.home, h("h2", {}, "Links"), this.linkTable.element);
    this.timer = setInterval(() => this.look(), EVERY_MS);
    this.look();
  }

  close() { clearInterval(this.timer); }

  async look() {
    if (document.hidden) return;
    try {
      const map = await call("Links");
      this.linkTable.update((map.links ?? []).filter((link) => link.source === this.site || link.target === this.site));
    } catch (error) {
      tell(this.trouble, error.message, true);
    }
  }

  update() {
    const row = known.sites.find((one) => one.site === this.site);
    if (!row) {
      tell(this.trouble, `No site called ${this.site} is known here.`, true);
      return;
    }
    tell(this.trouble, "", false);
    const peer = known.peers?.peers?.find((one) => one.site === this.site);
    const isHome = Boolean(row.home);
    facts(this.facts, [
      ["State", row.state], ["Slots", `${count((row.slots ?? 0) - (row.freeSlots ?? 0))} of ${count(row.slots)} in use`], ["Running", count(row.runningJobs)], ["Waiting", count(row.queuedJobs)],
      ["Work ahead", seconds(row.workAheadS ?? 0)], ["Speed", `${row.speed ?? 0}`], ["Release", row.release ?? "-"],
      ...(isHome ? [["Disks that hold its journal", count(known.info.durability)]] : [["Round trip", seconds(row.rttS ?? -1)], ["From there", rate(row.bytesPerS ?? -1)], ["Linked", peer?.link || "no stream now"], ["Reached at", peer?.address || "it dials out"]]),
      ["Datasets", count(row.datasets?.length)], ["Black-hole guard", row.guarded ? `holds back ${count(row.guarded.length + Number(row.guardedMore ?? 0))}` : "holds nothing back"],
    ]);
    this.guard.hidden = !row.guarded;
    this.guarded.update(row.guarded ?? []);
    say(this.guardedMore, row.guardedMore ? `and ${count(Number(row.guardedMore))} more` : "");
    const note = [row.note, peer?.note].filter((text, at, all) => text && all.indexOf(text) === at).join("; ");
    this.note.hidden = !note;
    say(this.note, note);
    this.home.hidden = !isHome;
    if (isHome) {
      this.machines.update(known.peers?.machines ?? []);
      this.steering();
    }
  }

  steering() {
    const operator = known.info.role === "operator";
    const drained = known.ledger?.drained ?? "";
    const shape = `${operator} ${drained}`;
    if (shape === this.shape) return;
    this.shape = shape;
    const text = (answer) => answer.text ?? "done";
    place(this.buttons, !operator ? h("p", { class: "quiet" }, "An operator may drain this site and have it checked.") : [
      h("a", { href: `#/queues/${encodeURIComponent(this.site)}` }, "Its queues"),
      drained
        ? h("button", { type: "button", onclick: () => act(this.done, "Operate", { order: "undrain" }, text) }, "Take work again")
        : h("button", { type: "button", class: "danger", onclick: async () => {
            const reason = await ask(`Drain ${this.site}?`, "It takes no new work; what has started runs out, what waits goes elsewhere. Everybody is shown the reason.", { act: "Drain", wants: "reason", danger: true });
            if (reason !== null) await act(this.done, "Operate", { order: "drain", reason }, text);
          } }, "Drain"),
      h("button", { type: "button", onclick: () => this.check() }, "Check this node"),
    ]);
  }

  async check() {
    place(this.checks, h("p", { class: "quiet" }, "checking …"));
    try {
      const { checks = [] } = await call("Doctor");
      const table = new Table(
        [{ name: "Check", text: (row) => row.name }, { name: "State", draw: (cell, row) => state(cell, row.state) }, { name: "Found", text: (row) => row.found ?? "", cls: "text" }, { name: "Mend", text: (row) => row.mend ?? "", cls: "text" }],
        { key: (row) => row.name },
      );
      table.update(checks);
      place(this.checks, table.element);
    } catch (error) {
      place(this.checks, h("p", { class: "note bad" }, error.message));
    }
  }
}
