// One group's story: where it is, why it went there, what became of that, its jobs and what they wrote.

import { call, stream } from "./api.js";
import { h, place, say, Table } from "./dom.js";
import { EndedJobs } from "./ended.js";
import { between, bytes, count, rate, seconds } from "./format.js";
import { known } from "./main.js";
import { act, ask, expected, facts, linked, progress, siteLink, state, tell } from "./parts.js";

const EVERY_MS = 2000;
const MOST_LOG = 256 << 10;

export class GroupPage {
  constructor(group) {
    this.group = group;
    this.status = null;
    this.trouble = h("p", { hidden: true });
    this.bar = h("div");
    this.facts = h("dl", { class: "facts" });
    this.note = h("p", { class: "note", hidden: true });
    this.done = h("p", { hidden: true, role: "status" });
    this.buttons = h("div", { class: "tools" });
    this.shares = new Table(
      [
        { name: "Site", draw: (cell, row) => linked(cell, siteLink(row.site)) },
        { name: "State", draw: (cell, row) => state(cell, row.state) },
        ...["jobs", "staging", "queued", "running", "done", "failed"].map((key) => ({ name: key[0].toUpperCase() + key.slice(1), number: true, text: (row) => count(row[key]) })),
        { name: "Level", text: (row) => row.level ?? "" },
        { name: "Heard", number: true, text: (row) => (row.ageS > 1 ? `${seconds(row.ageS)} ago` : "now") },
      ],
      { key: (row) => row.key, empty: "Nowhere yet." },
    );
    this.waiting = h("div");
    this.decisions = h("div");
    this.outcomes = new Table(
      [
        { name: "Decision", number: true, text: (row) => `${(row.decision ?? 0) + 1}` },
        { name: "Site", draw: (cell, row) => linked(cell, siteLink(row.site)) },
        { name: "Jobs", number: true, text: (row) => count(row.jobs) },
        { name: "Start, predicted", number: true, text: (row) => seconds(Math.max(row.predictedWaitS ?? 0, row.predictedStageInS ?? 0)) },
        { name: "achieved", number: true, text: (row) => seconds(row.startedS ?? 0) },
        { name: "End, predicted", number: true, text: (row) => seconds(row.predictedEndS ?? 0) },
        { name: "achieved", number: true, text: (row) => (row.over ? seconds(row.endedS ?? 0) : "not over") },
        { name: "Bytes in", number: true, text: (row) => bytes(row.bytesIn) },
      ],
      { key: (row) => `${row.decision ?? 0} ${row.site}`, empty: "Nothing has been placed." },
    );
    this.jobs = new EndedJobs(group, (index) => this.log(index));
    this.logTitle = h("h2", { hidden: true });
    this.logText = h("pre", { hidden: true, tabindex: "0" });
    this.element = h("section", {}, h("h1", {}, this.title = h("span", {}, group)), this.trouble, this.bar, this.facts, this.note, this.buttons, this.done,
      h("h2", {}, "Where it is"), this.shares.element, this.waiting, h("h2", {}, "Why it was placed so"), this.decisions, h("h2", {}, "Predicted and achieved"), this.outcomes.element,
      h("h2", {}, "Jobs that ended"), this.jobs.element, this.logTitle, this.logText);
    this.timer = setInterval(() => this.look(), EVERY_MS);
    this.look();
  }

  close() { clearInterval(this.timer); }

  async look() {
    const news = known.groups.get(this.group);
    if (this.looking || document.hidden || (this.settled && news?.final !== false && this.heard === news)) return;
    this.heard = news;
    this.looking = true;
    try {
      const [status, explained] = await Promise.all([call("Status", { groups: [this.group] }), call("Explain", { group: this.group })]);
      this.status = status.groups?.[0] ?? null;
      tell(this.trouble, "", false);
      this.explained(explained);
      await this.jobs.look(this.status);
      this.settled = this.status?.final;
    } catch (error) {
      tell(this.trouble, error.message, true);
    }
    this.looking = false;
    this.update();
  }

  update() {
    const row = this.status ?? known.groups.get(this.group);
    if (!row) return;
    say(this.title, row.name ? `${this.group} · ${row.name}` : this.group);
    progress(this.bar, row);
    facts(this.facts, [
      ["State", row.state], ["Owner", row.owner ?? ""], ["Jobs", `${count(row.done)} of ${count(row.jobs)} done`], ["Failed", count((row.failed ?? 0) + (row.cancelled ?? 0))],
      ["Running", count(row.running)], ["Waiting", count((row.queued ?? 0) + (row.staging ?? 0) + (row.unplaced ?? 0))], ["Submitted", `${seconds(Math.max(0, known.now() - row.submittedWallS))} ago`],
      ["Predicted end", expected(row, known.now())], ["Moved", bytes(row.bytesMoved)],
    ]);
    this.note.hidden = !row.note;
    say(this.note, row.note ?? "");
    this.shares.update((this.status?.shares ?? []).map((share, at) => ({ ...share, key: `${share.site} ${at}` })));
    this.steering(row);
  }

  steering(row) {
    const shape = `${row.final} ${row.failed > 0} ${row.held > 0}`;
    if (shape === this.shape) return;
    this.shape = shape;
    const target = { target: this.group };
    const jobs = (answer) => `${count(answer.jobs)} jobs`;
    const button = (text, run, danger) => h("button", { type: "button", class: danger ? "danger" : null, onclick: run }, text);
    place(this.buttons,
      row.final ? null : button("Hold", () => act(this.done, "Hold", target, (answer) => `held: ${jobs(answer)}; ${count(answer.started)} had started and run on`)),
      row.held > 0 ? button("Release", () => act(this.done, "Release", target, (answer) => `released: ${jobs(answer)}`)) : null,
      row.failed > 0 ? button("Try the failed again", () => act(this.done, "Retry", target, (answer) => `tried again: ${jobs(answer)}`)) : null,
      row.final ? null : button("Cancel", async () => {
        const sure = await ask(`Cancel ${this.group}?`, `What has not ended of its ${count(row.jobs)} jobs is stopped, wherever it is.`, { act: "Cancel the group", danger: true });
        if (sure !== null) await act(this.done, "Cancel", target, (answer) => `cancelled: ${jobs(answer)}`);
      }, true));
    this.settled = false;
  }

  explained(found) {
    const text = JSON.stringify(found);
    if (text === this.told) return;
    this.told = text;
    const waiting = found.waiting ?? [];
    place(this.waiting, waiting.length || found.stays?.length ? h("h2", {}, "Why it still waits") : null,
      waiting.slice(0, 50).map((one) => h("p", { class: "note" }, `${count(one.jobs)} jobs at ${one.site}${one.level ? `, ${one.level}, priority ${(one.priority ?? 0).toFixed(3)}` : ""}${one.highS > 0 ? `, may start in ${between(one.lowS, one.highS) || seconds(one.highS)}` : ""}${one.note ? `: ${one.note}` : ""}`)),
      (found.stays ?? []).map((line) => h("p", { class: "note" }, `not moved: ${line}`)));
    place(this.decisions, (found.decisions ?? []).map((decision, at) => this.decision(decision, at, found.decisions.length)), found.decisions?.length ? null : h("p", { class: "quiet" }, "It has not been placed yet."));
    this.outcomes.update(found.outcomes ?? []);
  }

  decision(decision, at, of) {
    const good = (decision.candidates ?? []).filter((cost) => !cost.rejected);
    const rejected = (decision.candidates ?? []).filter((cost) => cost.rejected);
    const chosen = new Set((decision.parts ?? []).map((part) => part.site));
    const paper = decision.model === "paper";
    const table = new Table(
      [
        { name: "Site", draw: (cell, row) => linked(cell, siteLink(row.site)), sort: (row) => row.site },
        { name: "Chosen", text: (row) => (chosen.has(row.site) ? `${count((decision.parts ?? []).filter((part) => part.site === row.site).reduce((sum, part) => sum + (part.jobs ?? 0), 0))} jobs` : "") },
        { name: "Total", number: true, text: (row) => seconds(row.totalS ?? 0), sort: (row) => row.totalS ?? 0 },
        { name: "Wait", number: true, text: (row) => seconds(row.waitS ?? 0), sort: (row) => row.waitS ?? 0 },
        { name: "Stage in", number: true, text: (row) => seconds(row.stageInS ?? 0), sort: (row) => row.stageInS ?? 0 },
        { name: "Run", number: true, text: (row) => seconds(row.runS ?? 0), sort: (row) => row.runS ?? 0 },
        { name: "Stage out", number: true, text: (row) => seconds(row.stageOutS ?? 0) },
        { name: "Network", number: true, text: (row) => seconds(row.networkS ?? 0) },
        ...(paper ? [{ name: "Cost", number: true, text: (row) => (row.cost ?? 0).toPrecision(4), sort: (row) => row.cost ?? 0 }] : []),
        { name: "Slots", number: true, text: (row) => count(row.slots) },
        { name: "Jobs ahead", number: true, text: (row) => count(row.jobsAhead) },
        { name: "Bytes in", number: true, text: (row) => bytes(row.bytesIn) },
        { name: "Rate", number: true, text: (row) => rate(row.bytesPerS ?? -1) },
      ],
      { key: (row) => row.site, caption: "what the whole group would take at each site", sortBy: 2 },
    );
    table.update(good);
    const end = decision.expectedS > 0 ? `predicted end after ${seconds(decision.expectedS)}${between(decision.lowS, decision.highS) ? `, range ${between(decision.lowS, decision.highS)}` : ""}` : "";
    return h("details", { open: at === of - 1 }, h("summary", {}, `${of > 1 ? `${at + 1}. ` : ""}${decision.reason || decision.plan}`),
      end ? h("p", { class: "quiet" }, end) : null, good.length ? table.element : null,
      rejected.map((cost) => h("p", { class: "quiet" }, `not ${cost.site}: ${cost.rejected}${cost.nearMiss ? ` (takes it if ${cost.nearMiss})` : ""}`)),
      (decision.reasons ?? []).map((some) => h("p", { class: "quiet" }, `${count(some.sites)} more sites: ${some.reason}`)));
  }

  async log(index) {
    const job = `${this.group}.${index}`;
    this.logTitle.hidden = this.logText.hidden = false;
    say(this.logTitle, `What ${job} wrote`);
    let text = "";
    try {
      await stream("Logs", { job }, (chunk) => {
        const raw = Uint8Array.from(atob(chunk.data ?? ""), (letter) => letter.charCodeAt(0));
        text += new TextDecoder().decode(raw) + (chunk.error ? `\n${chunk.error}\n` : "") + (chunk.truncated ? "\n(it wrote more than was kept)\n" : "");
        return text.length < MOST_LOG;
      });
      if (text.length >= MOST_LOG) text = `${text.slice(0, MOST_LOG)}\n(and more: diana logs ${job})`;
    } catch (error) {
      text = error.message;
    }
    this.logText.textContent = text || "(nothing)";
    this.logText.focus();
  }
}
