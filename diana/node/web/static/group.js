// One group's story: where it is, why it went there, what became of that, its jobs and what they wrote.

import { call, stream } from "./api.js";
import { conditions } from "./conditions.js";
import { h, place, say, Table } from "./dom.js";
import { EndedJobs } from "./ended.js";
import { between, bytes, count, gangsOf, rate, seconds } from "./format.js";
import { Gangs, placedGang } from "./gangs.js";
import { known } from "./main.js";
import { act, ask, expected, facts, linked, progress, siteLink, state, tell } from "./parts.js";

const EVERY_MS = 2000;
const MOST_LOG = 256 << 10;

const COUNTS = ["jobs", "staging", "queued", "running", "done", "failed"];

const weight = (state) => (state === "unreachable" ? 0 : state === "closed" ? 2 : 1);
const jobsOf = (number) => `${count(number)} ${(number ?? 0) === 1 ? "job" : "jobs"}`;

/** One row for each site, however many parts of the group it has. */
export function bySite(shares) {
  const rows = new Map();
  for (const share of shares) {
    const row = rows.get(share.site);
    if (!row) { rows.set(share.site, { ...share }); continue; }
    for (const name of COUNTS) row[name] = (row[name] ?? 0) + (share[name] ?? 0);
    const both = (one, other, gap) => [...new Set([...(one ?? "").split(gap), ...(other ?? "").split(gap)])].filter(Boolean).join(gap);
    // Of a part that is over nothing is to be told while another goes on, and of one that is out of reach always.
    row.state = [row.state, share.state].sort((one, other) => weight(one) - weight(other))[0];
    row.level = both(row.level, share.level, ", ");
    row.ageS = Math.max(row.ageS ?? 0, share.ageS ?? 0);
  }
  return [...rows.values()];
}

export class GroupPage {
  /** `what`: a group, or a job of it, whose gang is shown: `alpha-1`, `alpha-1.7`. */
  constructor(what) {
    const [, group, job] = /^(.*?)(?:\.(\d+))?$/.exec(what);
    this.group = group;
    this.gangs = new Gangs(group, job === undefined ? null : Number(job));
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
        ...COUNTS.map((key) => ({ name: key[0].toUpperCase() + key.slice(1), number: true, text: (row) => count(row[key]) })),
        { name: "Level", text: (row) => row.level ?? "" },
        { name: "Heard", number: true, text: (row) => (row.ageS > 1 ? `${seconds(row.ageS)} ago` : "now") },
      ],
      { key: (row) => row.site, empty: "Nowhere yet." },
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
    this.logStand = h("p", { class: "quiet", hidden: true, role: "status" });
    this.which = h("input", { type: "number", min: "0", step: "1", inputmode: "numeric", "aria-label": "number of a job" });
    const show = h("form", { class: "tools", onsubmit: (event) => { event.preventDefault(); this.log(Math.max(0, Math.trunc(Number(this.which.value)) || 0)); } },
      h("label", {}, "Output of job ", this.which), h("button", { type: "submit" }, "Show"), h("span", { class: "quiet" }, "also while it runs"));
    this.element = h("section", {}, h("h1", {}, this.title = h("span", {}, group)), this.trouble, this.bar, this.facts, this.note, this.buttons, this.done,
      h("h2", {}, "Where it is"), this.shares.element, this.gangs.element, this.waiting, h("h2", {}, "Why it was placed so"), this.decisions, this.achieved = h("div", {}, h("h2", {}, "Predicted and achieved"), this.outcomes.element),
      h("h2", {}, "Jobs that ended"), this.jobs.element, show, this.logTitle, this.logText, this.logStand);
    this.timer = setInterval(() => this.look(), EVERY_MS);
    this.look();
  }

  close() { clearInterval(this.timer); this.followed = null; }

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
      this.gangs.look(this.status, explained);
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
      ["State", row.state], ["Owner", row.owner ?? ""], ["Jobs", `${count(row.done)} of ${count(row.jobs)} done${gangsOf(row)}`], ["Failed", count(row.failed)], ["Cancelled", count(row.cancelled)],
      ["Running", count(row.running)], ["Waiting", count((row.queued ?? 0) + (row.staging ?? 0) + (row.unplaced ?? 0))], ["Submitted", `${seconds(Math.max(0, known.now() - row.submittedWallS))} ago`],
      ["Predicted end", expected(row, known.now())], ["Moved", bytes(row.bytesMoved)],
    ]);
    this.note.hidden = !row.note;
    say(this.note, row.note ?? "");
    // Jobs start in order: the first that has not ended is likely to run.
    if (!this.which.value && document.activeElement !== this.which && row.jobs) this.which.value = `${row.final ? 0 : Math.min(row.jobs - 1, (row.done ?? 0) + (row.failed ?? 0) + (row.cancelled ?? 0))}`;
    this.shares.update(bySite(this.status?.shares ?? []));
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
      waiting.slice(0, 50).map((one) => h("p", { class: "note" }, `${jobsOf(one.jobs)}${one.site ? ` at ${one.site}` : ""}${one.level ? `, ${one.level}, priority ${(one.priority ?? 0).toFixed(3)}` : ""}${one.highS > 0 ? `, may start in ${between(one.lowS, one.highS) || seconds(one.highS)}` : ""}${one.note ? `: ${one.note}` : ""}`)),
      (found.stays ?? []).map((line) => h("p", { class: "note" }, `not moved: ${line}`)));
    const decisions = found.decisions ?? [];
    // A site that calls for jobs whose turn has come there weighs nothing: there may be hundreds of them.
    const weighed = decisions.filter((decision, at) => decision.candidates?.length || decision.gang || at === 0);
    const called = new Map();
    for (const decision of decisions) if (!weighed.includes(decision)) called.set(decision.reason, (called.get(decision.reason) ?? 0) + 1);
    place(this.decisions, weighed.map((decision, at) => this.decision(decision, at, weighed.length)), decisions.length ? null : h("p", { class: "quiet" }, "It has not been placed yet."), conditions(found.refused?.requirements, " at the last look"),
      called.size ? h("p", { class: "quiet" }, [...called].map(([reason, times]) => (times > 1 ? `${reason} (${count(times)} times)` : reason)).join("; ")) : null);
    this.outcomes.update(found.outcomes ?? []);
    // Of a gang nothing is foretold by site.
    this.achieved.hidden = !found.outcomes?.length && decisions.some((decision) => decision.gang);
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
      end ? h("p", { class: "quiet" }, end) : null, decision.gang ? placedGang(decision.gang) : null, good.length ? table.element : null,
      rejected.map((cost) => h("p", { class: "quiet" }, `not ${cost.site}: ${cost.rejected}${cost.nearMiss ? ` (takes it if ${cost.nearMiss})` : ""}`)),
      (decision.reasons ?? []).map((some) => h("p", { class: "quiet" }, `${count(some.sites)} more sites: ${some.reason}`)), conditions(decision.requirements));
  }

  /** The output of a job, and of one that runs as it grows, for as long as the page shows it. */
  async log(index) {
    const job = `${this.group}.${index}`;
    this.logTitle.hidden = this.logText.hidden = this.logStand.hidden = false;
    say(this.logTitle, `What ${job} wrote`);
    this.logText.textContent = "";
    this.logText.focus();
    this.followed = { job, start: 0, attempt: 0, letters: new TextDecoder() };
    await this.followLog(this.followed);
  }

  async followLog(log) {
    while (this.followed === log) {
      let goesOn = false;
      let stand = "";
      try {
        if (!document.hidden) {
          await stream("Logs", { job: log.job, start: log.start, attempt: log.attempt }, (chunk) => {
            if (this.followed !== log) return false;
            const raw = Uint8Array.from(atob(chunk.data ?? ""), (letter) => letter.charCodeAt(0));
            if (raw.length && log.attempt && chunk.attempt && chunk.attempt !== log.attempt) this.logText.append("\n(the next attempt)\n");
            log.start = Number(chunk.next ?? log.start);
            log.attempt = chunk.attempt ?? log.attempt;
            const text = log.letters.decode(raw, { stream: true }) + (chunk.truncated ? "\n(it wrote more than was kept)\n" : "");
            if (text) this.logText.append(text);
            goesOn = Boolean(chunk.running || chunk.unreachable);
            // The line about a log that is to come is for a terminal.
            stand = (chunk.error ?? "").replace(/; -f waits for it$/, "") || (chunk.running ? "it runs; more shows as it comes" : "");
            return this.logText.textContent.length < MOST_LOG;
          });
        } else goesOn = true;
      } catch (error) {
        [goesOn, stand] = [error.code === "unreachable", error.message];
      }
      if (this.followed !== log) return;
      if (this.logText.textContent.length >= MOST_LOG) [goesOn, stand] = [false, `and more: diana logs ${log.job}`];
      say(this.logStand, stand || (this.logText.textContent ? "" : "(nothing)"));
      if (!goesOn) return;
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
  }
}
