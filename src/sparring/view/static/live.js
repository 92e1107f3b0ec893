/** One poll a second, none while the page is hidden. */

import { get } from "./api.js";

const EVERY = 1000; // milliseconds
const known = { version: null, timer: null, failures: 0 };

/** Note the version of an answer: the oldest one held is what polls start from. */
export function noteVersion(version) {
  if (typeof version !== "number") return;
  if (known.version === null || version < known.version) known.version = version;
}

/**
 * Poll for ever.
 * @param {function} changed takes the answer of /api/changes
 * @param {function} said takes a sentence for the status line; "" where all is well
 */
export function watch(changed, said) {
  const later = () => {
    clearTimeout(known.timer);
    known.timer = setTimeout(poll, EVERY * Math.min(10, 1 + known.failures));
  };
  async function poll() {
    if (document.hidden) return;
    if (known.version === null) {
      later();
      return;
    }
    try {
      const answer = await get("/api/changes", { since: known.version });
      if (known.failures) said("");
      known.failures = 0;
      if (answer) {
        known.version = answer.version;
        await changed(answer);
      }
    } catch (error) {
      known.failures += 1;
      said(error.message);
    }
    later();
  }
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) poll();
  });
  later();
}
