/** What a view asks for first: asked at once, while the modules of the view are on their way. */

import { get, takeToken } from "./api.js";
import { addressOf } from "./pictures.js";
import { state } from "./router.js";

const OF_RUNS = ["runs", "curves", "replay", "league", "workers"]; // begin with the table of runs
let held = null; // the request, and its answer to come

function keyOf(path, values = {}) {
  const given = Object.entries(values).filter(([, value]) => value);
  return JSON.stringify([path, given]);
}

function firstOf(now) {
  const view = now.view ?? "runs";
  if (view === "replay" && now.episode)
    return [addressOf({ ...now, run: now.run ?? 0 }), { seat: now.seat }];
  return OF_RUNS.includes(view) ? ["/api/runs", {}] : null;
}

function ask() {
  const first = firstOf(state());
  if (!first) return;
  const answer = get(...first);
  answer.catch(() => {}); // the view that takes it says what is wrong
  held = { key: keyOf(...first), answer };
}

/** Return the answer to a request if it was asked ahead, once; null if it was not. */
export function takeAhead(path, values) {
  if (held?.key !== keyOf(path, values)) return null;
  const { answer } = held;
  held = null;
  return answer;
}

/** Forget an answer that nobody took: it would be old. */
export function forgetAhead() {
  held = null;
}

takeToken();
ask();
