/** The first request of a view, sent at once, while the modules of the view are loading. */

import { get, takeToken } from "./api.js";
import { addressOf } from "./pictures.js";
import { state } from "./router.js";

const OF_RUNS = ["runs", "curves", "replay", "league", "workers"]; // these need the list of runs
let request = null; // key of the request, and the promise of its answer

function keyOf(path, values = {}) {
  const nonEmpty = Object.entries(values).filter(([, value]) => value);
  return JSON.stringify([path, nonEmpty]);
}

function firstRequestOf(now) {
  const view = now.view ?? "runs";
  if (view === "replay" && now.episode)
    return [addressOf({ ...now, run: now.run ?? 0 }), { seat: now.seat }];
  return OF_RUNS.includes(view) ? ["/api/runs", {}] : null;
}

function ask() {
  const firstRequest = firstRequestOf(state());
  if (!firstRequest) return;
  const answer = get(...firstRequest);
  answer.catch(() => {}); // the view that takes the answer shows the error
  request = { key: keyOf(...firstRequest), answer };
}

/** Return the answer to the request that was sent ahead, once; null for any other request. */
export function takeAhead(path, values) {
  if (request?.key !== keyOf(path, values)) return null;
  const { answer } = request;
  request = null;
  return answer;
}

/** Drop the answer if no view took it, because it becomes outdated. */
export function forgetAhead() {
  request = null;
}

takeToken();
ask();
