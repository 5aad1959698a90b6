// All groups the viewer may see.

import { h, Table } from "./dom.js";
import { bytes, count, gangsOf, seconds } from "./format.js";
import { known, redraw } from "./main.js";
import { brief, expected, groupLink, linked, progress, state } from "./parts.js";

const chosen = { text: "", active: false };

export class GroupsPage {
  constructor() {
    const filter = h("input", { type: "search", placeholder: "filter by id, name, owner or state ( / )", "aria-label": "filter", oninput: () => { chosen.text = filter.value; redraw(); } });
    filter.value = chosen.text;
    const active = h("input", { type: "checkbox", onchange: () => { chosen.active = active.checked; redraw(); } });
    active.checked = chosen.active;
    this.total = h("p", { class: "quiet" });
    this.table = new Table(
      [
        { name: "Group", draw: (cell, row) => linked(cell, groupLink(row.group)), sort: (row) => row.submittedWallS },
        { name: "Name", text: (row) => row.name ?? "", sort: (row) => row.name ?? "" },
        { name: "Owner", text: (row) => row.owner ?? "", sort: (row) => row.owner ?? "", cls: "optional" },
        { name: "State", draw: (cell, row) => state(cell, row.state), sort: (row) => row.state },
        { name: "Progress", draw: progress, sort: (row) => (row.done ?? 0) / (row.jobs || 1) },
        { name: "Jobs", number: true, text: (row) => count(row.jobs), sort: (row) => row.jobs ?? 0 },
        { name: "Done", number: true, text: (row) => count(row.done), sort: (row) => row.done ?? 0 },
        { name: "Running", number: true, text: (row) => count(row.running), sort: (row) => row.running ?? 0, cls: "optional" },
        { name: "Failed", number: true, text: (row) => count(row.failed), sort: (row) => row.failed ?? 0 },
        { name: "Level", text: (row) => row.level ?? "", sort: (row) => row.level ?? "", cls: "optional wide" },
        { name: "Submitted", number: true, moving: true, text: (row) => `${seconds(Math.max(0, known.now() - row.submittedWallS))} ago`, sort: (row) => -row.submittedWallS },
        { name: "End", number: true, moving: true, text: (row) => expected(row, known.now()), sort: (row) => (row.final ? -1 : row.submittedWallS + (row.expectedEndS ?? 0)) },
        { name: "Moved", number: true, text: (row) => bytes(row.bytesMoved), sort: (row) => row.bytesMoved ?? 0, cls: "optional wide" },
        { name: "Note", draw: (cell, row) => brief(cell, [gangsOf(row).trim(), row.note].filter(Boolean).join(" ")), cls: "text optional" },
      ],
      { key: (row) => row.group, empty: "No groups here. Submit one: diana submit --array 1-100 -- ./sim --seed {array}", sortBy: 0, down: true },
    );
    this.element = h("section", {}, h("h1", {}, "Groups"), h("div", { class: "tools" }, filter, h("label", {}, active, " not ended only")), this.total, this.table.element);
  }

  update() {
    const words = chosen.text.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...known.groups.values()];
    const rows = all.filter((row) => {
      if (chosen.active && row.final) return false;
      const text = `${row.group} ${row.name ?? ""} ${row.owner ?? ""} ${row.state}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    const jobs = rows.reduce((sum, row) => sum + (row.jobs ?? 0), 0);
    const done = rows.reduce((sum, row) => sum + (row.done ?? 0), 0);
    this.total.textContent = `${count(rows.length)} of ${count(all.length)} groups, ${count(done)} of their ${count(jobs)} jobs done${known.leftOut ? `; ${count(known.leftOut)} older ones are not shown: diana groups` : ""}`;
    this.table.update(rows);
  }
}
