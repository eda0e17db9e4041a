/**
 * The collector, asked with the token of whoever sits here.
 *
 * The token lives in sessionStorage: it is gone with the tab, other tabs and later visitors of this browser do
 * not have it, and no cookie carries it to a request that a stranger's page makes. It goes into the
 * Authorization header and nowhere else.
 */

const PLACE = "keyveil-token";
const TIMEOUT = 60_000;

/** A refusal of the collector, or no answer at all. */
export class Trouble extends Error {
  constructor({ code, title, detail, remedy, status = 0, said = {} }) {
    super(title);
    this.code = code;
    this.title = title;
    this.detail = detail;
    this.remedy = remedy;
    this.status = status;
    /** The whole answer, where it was JSON. */
    this.said = said;
  }

  get isOffline() {
    return this.code === "no-answer";
  }

  get needsToken() {
    return this.status === 401;
  }
}

const listeners = new Set();
let isConnected = true;

/** Called with `true` or `false` whenever the collector is found or lost. */
export function onConnection(listener) {
  listeners.add(listener);
}

function setConnected(is) {
  if (is === isConnected) return;
  isConnected = is;
  for (const listener of listeners) listener(is);
}

export const token = {
  get: () => sessionStorage.getItem(PLACE),
  set: (given) => (given ? sessionStorage.setItem(PLACE, given.trim()) : sessionStorage.removeItem(PLACE)),
};

/** What is thrown where the collector is not to be reached. */
export function noAnswer() {
  setConnected(false);
  return new Trouble({
    code: "no-answer",
    title: "The collector does not answer",
    detail: "It was stopped, it is being restarted, or the connection is lost.",
    remedy: "This page goes on by itself as soon as there is an answer. Nothing that was acknowledged is lost.",
  });
}

/**
 * @param {string} path
 * @param {{ method?: string, body?: unknown, signal?: AbortSignal }} [options]
 */
async function ask(path, { method = "GET", body, signal } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const limit = AbortSignal.timeout(TIMEOUT);
  /** @type {RequestInit} */
  const options = {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
    credentials: "omit",
    redirect: "error",
  };
  let response;
  try {
    response = await fetch(path, { ...options, signal: signal ? AbortSignal.any([signal, limit]) : limit });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw noAnswer();
  }
  setConnected(true);
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Trouble({
    code: said.code ?? `status-${response.status}`,
    title: said.title ?? `The collector answered ${response.status}`,
    detail: said.detail ?? "",
    remedy: said.remedy ?? "Try again later.",
    status: response.status,
    said,
  });
}

/** The JSON of an answer. */
export async function get(path, options) {
  return (await ask(path, options)).json();
}

/** Send JSON, get JSON. */
export async function post(path, body, options) {
  const response = await ask(path, { method: "POST", body, ...options });
  return response.status === 204 ? null : response.json();
}

/** Take something away. */
export async function drop(path) {
  await ask(path, { method: "DELETE" });
}

/** Reports, sent as any device sends them, without the token; whether they were taken. */
export async function sendReports(campaign, batch) {
  const response = await fetch(`/v1/campaigns/${campaign}/reports`, {
    method: "POST",
    body: batch,
    headers: { "content-type": "application/octet-stream" },
    credentials: "omit",
  });
  return response.ok;
}

/** A file. */
export async function file(path) {
  return (await ask(path)).blob();
}

/** Text, such as /metrics. */
export async function text(path, options) {
  return (await ask(path, options)).text();
}

/**
 * Ask again and again while a page is open: `show(answer)`, or `fail(trouble)`; waits longer after failures.
 * Returns what stops it.
 */
export function poll(work, { every = 1500, show, fail }) {
  const stop = new AbortController();
  let failures = 0;
  const turn = async () => {
    if (stop.signal.aborted) return;
    try {
      const answer = await work(stop.signal);
      if (stop.signal.aborted) return;
      failures = 0;
      show(answer);
    } catch (error) {
      if (stop.signal.aborted) return;
      failures += 1;
      fail(error);
      if (!error.isOffline && error.status && error.status < 500) return;
    }
    const wait = document.hidden ? 4 * every : every;
    setTimeout(turn, Math.min(15_000, wait * 2 ** Math.min(failures, 3)));
  };
  turn();
  return () => stop.abort();
}
