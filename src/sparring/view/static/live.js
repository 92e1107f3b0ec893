/** Polls the server once a second, and not while the page is hidden. */

import { get } from "./api.js";

const EVERY = 1000; // milliseconds
const polling = { version: null, timer: null, failures: 0 };

/** Note the version of an answer; polls start from the oldest version. */
export function noteVersion(version) {
  if (typeof version !== "number") return;
  if (polling.version === null || version < polling.version) polling.version = version;
}

/**
 * Poll until the page is closed.
 * @param {function} changed takes the answer of /api/changes
 * @param {function} tell takes a sentence for the status line; "" means no error
 */
export function watch(changed, tell) {
  const pollLater = () => {
    clearTimeout(polling.timer);
    polling.timer = setTimeout(poll, EVERY * Math.min(10, 1 + polling.failures));
  };
  async function poll() {
    if (document.hidden) return;
    if (polling.version === null) {
      pollLater();
      return;
    }
    try {
      const answer = await get("/api/changes", { since: polling.version });
      if (polling.failures) tell("");
      polling.failures = 0;
      if (answer) {
        polling.version = answer.version;
        await changed(answer);
      }
    } catch (error) {
      polling.failures += 1;
      tell(error.message);
    }
    pollLater();
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) poll();
  });
  pollLater();
}
