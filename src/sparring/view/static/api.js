/** Asking the server: with the token, one word for each failure. */

const KEY = "sparring-token";

/** An answer that is no data, in words fit to show. */
export class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

let given = false; // whether the address held the token: no other page knows it

/** Return whether this page was opened by an address that holds the token. */
export function cameWithToken() {
  return given;
}

/** Take the token from the address, keep it for this tab, and leave the address clean. */
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  given = true;
  sessionStorage.setItem(KEY, token);
  history.replaceState(null, "", location.pathname + location.search);
}

async function ask(path, signal, sent = {}) {
  const token = sessionStorage.getItem(KEY);
  const headers = { ...sent.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  try {
    const options = { ...sent, headers, signal, cache: "no-store", credentials: "omit" };
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal(0, "The server does not answer. Is `sparring view` still running?");
  }
}

async function refused(response) {
  let said = "";
  try {
    said = (await response.json()).error ?? "";
  } catch {
    said = response.statusText;
  }
  if (response.status === 401)
    said = "Open the address that `sparring view` printed: it holds the token.";
  return new Refusal(response.status, said || `error ${response.status}`);
}

function query(values) {
  const found = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") found.set(key, String(value));
  }
  return found.size ? `?${found}` : "";
}

/**
 * Get JSON. Returns null for "nothing new".
 * @param {string} path begins with /api/
 * @param {Object} values of the query; empty ones are left out
 * @param {AbortSignal} [signal]
 */
export async function get(path, values = {}, signal = undefined) {
  const response = await ask(path + query(values), signal);
  if (response.status === 304) return null;
  if (!response.ok) throw await refused(response);
  return response.json();
}

/**
 * Send an object and return the answer.
 * @param {string} path begins with /play
 * @param {Object} values goes as JSON
 */
export async function post(path, values) {
  const headers = { "Content-Type": "application/json", "X-Sparring": "1" };
  const sent = { method: "POST", headers, body: JSON.stringify(values) };
  const response = await ask(path, undefined, sent);
  if (!response.ok) throw await refused(response);
  return response.json();
}

/** Get a file as a blob: a board, an export. */
export async function blob(path, values = {}, signal = undefined) {
  const response = await ask(path + query(values), signal);
  if (!response.ok) throw await refused(response);
  return response.blob();
}
