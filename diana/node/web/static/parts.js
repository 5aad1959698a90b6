// Pieces several pages share.

import { call } from "./api.js";
import { h, place, say } from "./dom.js";
import { count, seconds, tone } from "./format.js";

export function state(cell, text) {
  let mark = cell.firstChild;
  if (!mark) cell.append((mark = h("span", { class: "state" })));
  mark.dataset.tone = tone(text);
  say(mark, text);
}

/** Two lines of a text at most; the whole of it where the pointer rests. */
export function brief(cell, text) {
  const shown = cell.firstChild ?? cell.appendChild(h("span", { class: "brief" }));
  say(shown, text);
  if (shown.title !== text) shown.title = text;
}

const SEGMENTS = [["done", "done"], ["failed", "failed"], ["cancelled", "cancelled"], ["running", "running"], ["queued", "queued"], ["held", "held"]];

/** How far a group is, as a bar whose parts are named in its label. */
export function progress(cell, group) {
  let bar = cell.firstChild;
  if (!bar) cell.append((bar = h("div", { class: "bar", role: "img" }, SEGMENTS.map(([, cls]) => h("i", { class: cls })))));
  const jobs = group.jobs || 1;
  const of = { done: group.done ?? 0, failed: group.failed ?? 0, cancelled: group.cancelled ?? 0, running: group.running ?? 0, queued: (group.queued ?? 0) + (group.staging ?? 0), held: (group.held ?? 0) + (group.unreachable ?? 0) };
  SEGMENTS.forEach(([name], at) => {
    bar.children[at].style.width = `${(100 * of[name]) / jobs}%`;
    // One failure in a thousand shows as well.
    bar.children[at].style.minWidth = of[name] ? "3px" : "0";
  });
  const label = SEGMENTS.filter(([name]) => of[name]).map(([name]) => `${count(of[name])} ${name}`).join(", ") || "nothing has begun";
  if (bar.getAttribute("aria-label") !== label) { bar.setAttribute("aria-label", label); bar.title = label; }
}

export function facts(element, rows) {
  if (element.children.length !== rows.length || rows.some(([name], at) => element.children[at].firstChild.textContent !== name)) {
    place(element, rows.map(([name]) => h("div", {}, h("dt", {}, name), h("dd", {}))));
  }
  rows.forEach(([, value], at) => say(element.children[at].lastChild, value));
}

export const siteLink = (site) => h("a", { href: `#/site/${encodeURIComponent(site)}` }, site);
export const groupLink = (group) => h("a", { href: `#/group/${encodeURIComponent(group)}` }, group);

/** Put a link into a cell once; rows of one key keep their name. */
export function linked(cell, link) {
  if (!cell.firstChild) cell.append(link);
}

/** When the plans have a group end, from now. */
export function expected(group, now) {
  if (group.final) return group.lastEndS >= 0 ? `took ${seconds(group.lastEndS ?? 0)}` : "-";
  if (!(group.expectedEndS > 0)) return "-";
  const left = group.submittedWallS + group.expectedEndS - now;
  return left >= 0 ? `in ${seconds(left)}` : `${seconds(-left)} late`;
}

/** Ask before something is done; the text given where `wants` names one. Null: no. */
export function ask(title, text, { act, wants = "", danger = false }) {
  const dialog = document.getElementById("ask");
  const field = wants ? h("input", { type: "text", "aria-label": wants, placeholder: wants }) : null;
  return new Promise((resolve) => {
    const done = (value) => { dialog.onclose = null; if (dialog.open) dialog.close(); resolve(value); };
    place(dialog, h("h2", {}, title), h("p", {}, text), field ? h("p", {}, field) : null,
      h("div", { class: "tools" },
        h("button", { type: "button", class: danger ? "danger" : null, onclick: () => done(field ? field.value : "") }, act),
        h("button", { type: "button", onclick: () => done(null) }, "Leave it")));
    dialog.onclose = () => done(null);
    dialog.showModal();
    (field ?? dialog.querySelector("button")).focus();
  });
}

/** Do what a button says and tell on `line` what came of it. */
export async function act(line, method, request, done) {
  try {
    const answer = await call(method, request);
    tell(line, done(answer), false);
  } catch (error) {
    tell(line, error.message, true);
  }
}

export function tell(line, text, bad) {
  line.hidden = !text;
  line.className = bad ? "note bad" : "note";
  say(line, text);
}
