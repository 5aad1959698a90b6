// The node as a page sees it: calls with the token this page keeps, and the live feed, which comes back by itself.

const KEY = "diana-token";
export const NOT_IN = "not-in";

export class Failure extends Error {
  constructor(code, text) { super(text); this.code = code; }
}

export async function enter(ticket) {
  const answer = await fetch("/api/session", { method: "POST", body: JSON.stringify({ ticket }) });
  const content = await answer.json();
  if (content.failure) throw new Failure(NOT_IN, content.failure.text);
  localStorage.setItem(KEY, content.token);
}

export const hasToken = () => Boolean(localStorage.getItem(KEY));
export const leave = () => localStorage.removeItem(KEY);

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: { Authorization: `Bearer ${localStorage.getItem(KEY)}` } });
  } catch {
    throw new Failure("unreachable", "the node does not answer");
  }
  if (answer.ok) return answer;
  let failure = { code: "internal", text: `the node answers ${answer.status}` };
  try { failure = (await answer.json()).failure ?? failure; } catch { /* Its text is what is left. */ }
  throw new Failure(answer.status === 401 ? NOT_IN : failure.code, failure.text);
}

/** One call of the client service; its answer as in docs/cli `--json`. Values at their default are left out. */
export async function call(method, request = {}) {
  return (await ask(`/api/${method}`, { method: "POST", body: JSON.stringify(request) })).json();
}

/** A call that answers in many messages. `each` gives false to end it early. */
export async function stream(method, request, each) {
  const answer = await ask(`/api/${method}`, { method: "POST", body: JSON.stringify(request) });
  await lines(answer.body, "\n", (line) => {
    const message = JSON.parse(line);
    if (message.failure) throw new Failure(message.failure.code, message.failure.text);
    return each(message);
  });
}

async function lines(body, end, each) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split(end);
      rest = parts.pop();
      for (const part of parts) if (part && each(part) === false) return;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

const SILENCE_MS = 35000;

/** Events for ever: `on(name, value)`; `standing(text)` says why there are none now, empty when there are. */
export async function live(on, standing) {
  let pause = 500;
  for (;;) {
    const control = new AbortController();
    let timer = 0;
    const heard = () => { clearTimeout(timer); timer = setTimeout(() => control.abort(), SILENCE_MS); };
    try {
      heard();
      const answer = await ask("/api/live", { signal: control.signal });
      pause = 500;
      await lines(answer.body, "\n\n", (event) => {
        heard();
        const [name, data] = event.split("\n");
        standing("");
        on(name.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
      });
      standing("the node ended the connection; trying again");
    } catch (error) {
      if (error.code === NOT_IN) throw error;
      standing(error instanceof Failure ? `${error.message}; trying again, what is shown may be old` : "the connection broke; trying again, what is shown may be old");
    } finally {
      clearTimeout(timer);
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(5000, pause * 1.5);
  }
}
