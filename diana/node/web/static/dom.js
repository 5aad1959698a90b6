// Elements from values. Text is always a text node: what sites and users call themselves is never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);

/** Set an element's text only when it changed, so that a selection in it survives. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function place(element, ...children) {
  element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
}

/**
 * A table whose rows are kept by key and changed in place. A column: {name, number, text(row), draw(cell, row), sort(row), cls}.
 * `text` gives what a cell says; `draw` fills it otherwise and must replace what it put there before.
 */
export class Table {
  constructor(columns, { key, caption = "", empty = "nothing here", page = 100, sortBy = -1, down = false }) {
    Object.assign(this, { columns, key, page, shown: page, sortBy, down, rows: [], kept: new Map() });
    this.body = h("tbody");
    this.heads = columns.map((column, at) => {
      const label = column.sort ? h("button", { type: "button", onclick: () => this.order(at) }, column.name) : column.name;
      return h("th", { scope: "col", class: [column.number ? "number" : "", column.cls ?? ""].join(" ").trim() || null }, label);
    });
    this.more = h("button", { type: "button", hidden: true, onclick: () => { this.shown += 4 * this.page; this.draw(); } });
    this.empty = h("p", { class: "quiet" }, empty);
    this.element = h("div", {}, h("div", { class: "scroll" }, h("table", { class: "fold" }, caption ? h("caption", {}, caption) : null, h("thead", {}, h("tr", {}, this.heads)), this.body)), this.empty, this.more);
  }

  order(at) {
    this.down = this.sortBy === at ? !this.down : Boolean(this.columns[at].number);
    this.sortBy = at;
    this.draw();
  }

  update(rows) {
    this.rows = rows;
    this.draw();
  }

  draw() {
    let rows = this.rows;
    if (this.sortBy >= 0) {
      const value = this.columns[this.sortBy].sort;
      const sign = this.down ? -1 : 1;
      rows = [...rows].sort((a, b) => { const x = value(a), y = value(b); return x < y ? -sign : x > y ? sign : 0; });
    }
    this.heads.forEach((head, at) => {
      if (this.columns[at].sort) head.setAttribute("aria-sort", at !== this.sortBy ? "none" : this.down ? "descending" : "ascending");
    });
    const visible = rows.slice(0, this.shown);
    const keys = new Set(visible.map(this.key));
    for (const [key, entry] of this.kept) if (!keys.has(key)) { entry.tr.remove(); this.kept.delete(key); }
    let before = this.body.firstChild;
    for (const row of visible) {
      const key = this.key(row);
      let entry = this.kept.get(key);
      if (!entry) this.kept.set(key, (entry = this.made()));
      this.fill(entry, row);
      if (entry.tr === before) before = before.nextSibling;
      else this.body.insertBefore(entry.tr, before);
    }
    const left = rows.length - visible.length;
    this.more.hidden = left <= 0;
    say(this.more, `${left.toLocaleString("en")} more`);
    this.empty.hidden = rows.length > 0;
    this.element.firstChild.hidden = rows.length === 0;
  }

  made() {
    const cells = this.columns.map((column) => h("td", { class: [column.number ? "number" : "", column.cls ?? ""].join(" ").trim() || null, "data-name": column.name }));
    return { tr: h("tr", {}, cells), cells, row: null };
  }

  fill(entry, row) {
    if (entry.row === row && !this.columns.some((column) => column.moving)) return;
    entry.row = row;
    this.columns.forEach((column, at) => {
      if (column.draw) column.draw(entry.cells[at], row);
      else say(entry.cells[at], column.text(row));
    });
  }
}
