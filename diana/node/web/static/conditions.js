// Sites against the conditions of a group: what each has, and whether that will do.

import { h, Table } from "./dom.js";
import { count } from "./format.js";
import { linked, siteLink } from "./parts.js";

const cell = (judged) => `${judged?.holds ? "yes" : "no"}${judged?.found ? ` (${judged.found})` : ""}`;
const worded = (one) => `${one.component ? `component ${one.component}: ` : ""}${one.text}${one.wants ? ` [${one.wants}]` : ""}`;

/** The table of a decision; nothing where its group has no conditions. `when`: words on the time it is of, if another stands beside it. */
export function conditions(told, when = "") {
  if (!told) return [];
  const out = [];
  if (told.conditions?.length && told.sites?.length) {
    const table = new Table(
      [
        { name: "Site", draw: (at, row) => linked(at, siteLink(row.site)), sort: (row) => row.site },
        ...told.conditions.map((one, at) => ({ name: worded(one), text: (row) => cell(row.judgements?.[at]) })),
      ],
      { key: (row) => row.site, caption: `its conditions${when}, and what each site has` },
    );
    table.update(told.sites);
    out.push(table.element);
  }
  if (told.more) out.push(h("p", { class: "quiet" }, `and ${count(told.more)} more conditions`));
  for (const [at, one] of (told.setConditions ?? []).entries()) {
    out.push(h("p", { class: "quiet" }, `${(told.together ?? []).join(", ")} together${when}: ${worded(one)}: ${cell(told.setJudgements?.[at])}`));
  }
  return out;
}
