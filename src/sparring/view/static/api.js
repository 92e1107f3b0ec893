/** Requests to the server, with the token; each failure becomes a message. */

const KEY = "sparring-token";

/** An error of a request, with a message that can be shown. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let hasToken = false; // whether the address that opened the page held the token

/** Return whether this page was opened by an address that holds the token. */
export function cameWithToken() {
  return hasToken;
}

/** Take the token from the address, store it for this tab, and remove it from the address. */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  hasToken = true;
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", location.pathname + location.search);
}

async function ask(path, signal, extra = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...extra.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  try {
    const options = { ...extra, headers, signal, cache: "no-store", credentials: "omit" };
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer. Is `sparring view` still running?");
  }
}

async function refusalOf(response) {
  let message = "";
  try {
    message = (await response.json()).error ?? "";
  } catch {
    message = response.statusText;
  }
  if (response.status === 401)
    message = "Open the address that `sparring view` printed: it holds the token.";
  return new Refusal(response.status, message || `error ${response.status}`);
}

function query(values) {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") params.set(key, String(value));
  }
  return params.size ? `?${params}` : "";
}

/**
 * Get JSON; return null if the server has nothing new.
 * @param {string} path begins with /api/
 * @param {Object} values parameters of the query; empty values are left out
 * @param {AbortSignal} [signal]
 */
export async function get(path, values = {}, signal = undefined) {
  const response = await ask(path + query(values), signal);
  if (response.status === 304) return null;
  if (!response.ok) throw await refusalOf(response);
  return response.json();
}

/**
 * Send an object and return the answer.
 * @param {string} path begins with /play
 * @param {Object} values the object, sent as JSON
 */
export async function post(path, values) {
  const headers = { "Content-Type": "application/json", "X-Sparring": "1" };
  const request = { method: "POST", headers, body: JSON.stringify(values) };
  const response = await ask(path, undefined, request);
  if (!response.ok) throw await refusalOf(response);
  return response.json();
}

/** Get a file as a blob: a board, an export. */
export async function blob(path, values = {}, signal = undefined) {
  const response = await ask(path + query(values), signal);
  if (!response.ok) throw await refusalOf(response);
  return response.blob();
}
