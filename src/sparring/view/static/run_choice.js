/** The choice of one run, for views that show one. */

import { el, empty, plain } from "./dom.js";
import { change } from "./router.js";

/** Say how to get a first run. */
export function noRuns() {
  const advice = "its folder must be inside one given to `sparring view` (default: runs)";
  const sentence = `No runs here yet. Start one in another terminal; ${advice}.`;
  return empty(sentence, "sparring train kuhn-tiny");
}

/** Make the choice; `update` requests the runs and returns the number of the chosen run. */
export function runChoice(get) {
  const node = el("div", { class: "tools" });
  return {
    node,
    async update(now) {
      const { runs } = await get("/api/runs");
      if (!runs.length) return null;
      const requested = Number(now.run ?? runs[0].run);
      const run = runs.some((other) => other.run === requested) ? requested : runs[0].run;
      const options = runs.map((other) =>
        el("option", { value: other.run, selected: other.run === run }, plain(other.name, 40)),
      );
      const select = el(
        "select",
        { on: { change: (e) => change({ run: e.target.value }) } },
        options,
      );
      if (!node.contains(document.activeElement))
        node.replaceChildren(el("label", {}, "run ", select));
      return run;
    },
  };
}
