/** The choice of one run, for views that show one. */

import { el, empty, plain } from "./dom.js";
import { change } from "./router.js";

/** Say how to get a first run. */
export function noRuns() {
  const where = "its folder must be inside one given to `sparring view` (default: runs)";
  const sentence = `No runs here yet. Start one in another terminal; ${where}.`;
  return empty(sentence, "sparring train kuhn-tiny");
}

/** Make the choice; `update` asks for the runs and returns the number of the chosen one. */
export function runChoice(get) {
  const node = el("div", { class: "tools" });
  return {
    node,
    async update(now) {
      const { runs } = await get("/api/runs");
      if (!runs.length) return null;
      const asked = Number(now.run ?? runs[0].run);
      const run = runs.some((one) => one.run === asked) ? asked : runs[0].run;
      const options = runs.map((one) =>
        el("option", { value: one.run, selected: one.run === run }, plain(one.name, 40)),
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
