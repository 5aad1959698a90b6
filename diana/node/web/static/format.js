// Numbers as people read them; the same words as the command line has. A negative time or rate is one nobody knows.

export function count(value) { return (value ?? 0).toLocaleString("en"); }

export function seconds(value) {
  if (value === undefined || value === null || value < 0 || !Number.isFinite(value)) return "-";
  if (value < 0.0005) return "0 s";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${(value / 3600).toFixed(1)} h`;
  return `${(value / 86400).toFixed(1)} d`;
}

export function bytes(value) {
  if (!value || value < 0) return value === 0 || value === undefined ? "0 B" : "-";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const at = Math.min(units.length - 1, Math.floor(Math.log10(value) / 3));
  const scaled = value / 1000 ** at;
  return `${scaled >= 100 || at === 0 ? Math.round(scaled) : scaled.toFixed(1)} ${units[at]}`;
}

export function gangsOf(row) {
  if (!row.gangs) return "";
  const over = row.gangs - (row.gangsWaiting ?? 0) - (row.gangsRunning ?? 0);
  const does = [[row.gangsWaiting, "wait"], [row.gangsRunning, "run"], [over, "over"]].filter(([many]) => many > 0);
  const size = row.components ? ` of ${count(row.components)}` : "";
  return ` (${count(row.gangs)} ${row.gangs === 1 ? "gang" : "gangs"}${size}: ${does.map(([many, word]) => `${count(many)} ${word}`).join(", ")})`;
}

export function rate(value) { return value > 0 ? `${bytes(value)}/s` : "-"; }
export function share(value) { return `${Math.round(100 * (value ?? 0))} %`; }
export function between(low, high) { return high > 0 && seconds(low) !== seconds(high) ? `${seconds(low)} to ${seconds(high)}` : ""; }

const TONES = { alive: "good", done: "good", here: "good", ok: "good", holds: "good", running: "busy", starting: "busy", "staging inputs": "busy", asked: "waits", "claimed later": "waits", "waited for": "waits", silent: "bad", merging: "busy", registering: "busy", queued: "waits", placing: "waits", waiting: "waits", held: "waits", suspect: "waits", warn: "waits", probation: "waits", failed: "bad", timed_out: "bad", not_started: "bad", staging_failed: "bad", barred: "bad", fail: "bad", unreachable: "bad", lost: "bad", banned: "bad", away: "bad" };
export function tone(state) { return TONES[state] ?? "off"; }
