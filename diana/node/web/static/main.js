// What is known of the grid, kept up to date by the live feed, and which page shows it.

import { enter, hasToken, leave, live, NOT_IN } from "./api.js";
import { h, place, say } from "./dom.js";
import { ActivityPage } from "./activity.js";
import { GridPage } from "./grid.js";
import { GroupPage } from "./group.js";
import { GroupsPage } from "./groups.js";
import { QueuesPage } from "./queues.js";
import { SitePage } from "./site.js";

/** Sections as the node tells them; `groups` by id; `now()` is the node's clock, seconds. */
export const known = {
  info: null, sites: [], queue: null, links: { lines: [] }, peers: null, ledger: null, groups: new Map(), leftOut: 0, skew: 0,
  now() { return Date.now() / 1000 + this.skew; },
};

/** There is no page of that name. */
class NowherePage {
  constructor() {
    this.element = h("section", {}, h("h1", {}, "No such page"), h("p", {}, `${location.hash} names none of these pages: an address may have been cut short. `, h("a", { href: "#/grid" }, "To the grid")));
  }

  update() {}
}

const PAGES = { nowhere: NowherePage, grid: GridPage, groups: GroupsPage, group: GroupPage, queues: QueuesPage, activity: ActivityPage, site: SitePage };
const TABS = [["grid", "Grid"], ["groups", "Groups"], ["queues", "Queues"], ["activity", "Activity"]];
const main = document.getElementById("main");
let page = null;
let shown = "";
let due = false;

function where() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (!name) return ["grid", ""];
  return [Object.hasOwn(PAGES, name) ? name : "nowhere", rest.map(decodeURIComponent).join("/")];
}

function show() {
  if (location.hash === shown && page) return;
  shown = location.hash;
  const [name, what] = where();
  page?.close?.();
  page = new PAGES[name](what);
  place(main, page.element);
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.dataset.page === name || (name === "group" && link.dataset.page === "groups") || (name === "site" && link.dataset.page === "grid");
    if (current) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  document.title = `${what || TABS.find(([key]) => key === name)?.[1] || name} · ${known.info?.site ?? "diana"}`;
  if (known.info) page.update();
}

/** Draw once per frame at most, however much came. */
export function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    if (known.info) page?.update();
  });
}

function heard(name, value) {
  switch (name) {
    case "groups":
      if (value.whole) known.groups = new Map();
      known.leftOut = value.leftOut ?? 0;
      for (const row of value.rows) known.groups.set(row.group, row);
      for (const group of value.gone) known.groups.delete(group);
      break;
    case "now": known.skew = value.wallS - Date.now() / 1000; break;
    case "trouble": standing(value.text); return;
    default: known[name] = value;
  }
  if (name === "info") header();
  redraw();
}

function header() {
  const { site, vo, principal, role } = known.info;
  say(document.getElementById("site"), site);
  say(document.getElementById("vo"), `of ${vo}`);
  say(document.getElementById("who"), `${principal}${role === "operator" ? ", operator" : ""}`);
  if (!document.title.endsWith(site)) document.title = document.title.replace(/[^·]*$/, ` ${site}`);
}

function standing(text) {
  const line = document.getElementById("standing");
  line.hidden = !text;
  say(line, text);
}

function outside(text) {
  page = null;
  place(main, h("h1", {}, "Not let in"), h("p", {}, text), h("p", {}, "On the node's machine, or with a credential elsewhere: ", h("code", {}, "diana dashboard"), ", then open the address it prints."));
}

function theme() {
  const order = ["", "light", "dark"];
  const next = order[(order.indexOf(document.documentElement.dataset.theme ?? "") + 1) % order.length];
  if (next) { document.documentElement.dataset.theme = next; localStorage.setItem("diana-theme", next); }
  else { delete document.documentElement.dataset.theme; localStorage.removeItem("diana-theme"); }
  say(document.getElementById("theme"), next ? `Theme: ${next}` : "Theme");
  redraw();
}

async function begin() {
  // An address from `diana dashboard` that is opened in this very tab changes nothing but the hash.
  window.addEventListener("hashchange", () => { if (location.hash.startsWith("#enter=")) location.reload(); });
  place(document.querySelector("nav"), TABS.map(([key, title]) => h("a", { href: `#/${key}`, "data-page": key }, title)));
  document.getElementById("theme").addEventListener("click", theme);
  const ticket = /^#enter=(.+)$/.exec(location.hash)?.[1];
  if (ticket) {
    history.replaceState(null, "", "#/grid");
    try {
      await enter(ticket);
    } catch (error) {
      if (!hasToken()) return outside(error.message);
    }
  }
  if (!hasToken()) return outside("These pages want to know who looks.");
  window.addEventListener("hashchange", () => { if (location.hash.startsWith("#enter=")) return; show(); main.focus(); });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.ctrlKey && !event.metaKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) {
      const field = main.querySelector("input[type=search]");
      if (field) { event.preventDefault(); field.focus(); }
    }
  });
  show();
  setInterval(redraw, 1000);
  try {
    await live(heard, standing);
  } catch (error) {
    if (error.code !== NOT_IN) throw error;
    leave();
    outside(error.message);
  }
}

begin();
