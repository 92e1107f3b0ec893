/** The tables below the curves: health events, and differences between configurations. */

import { el, grid, passage, word } from "./dom.js";
import { number } from "./format.js";

/** Return the table of health events of the runs shown. */
export function events(runs, points) {
  const rows = [];
  for (const [run, { events: runEvents }] of points) {
    const name = runs.find((other) => other.run === run)?.name;
    for (const event of runEvents) rows.push({ name, ...event });
  }
  const body = rows.map(({ name, step, metric, message, value, stops }) =>
    el(
      "tr",
      {},
      el("td", {}, word(name)),
      el("td", { class: "number" }, number(step)),
      el("td", {}, word(metric)),
      el("td", { class: "number" }, number(value)),
      el("td", { class: stops ? "bad" : "warn" }, passage(message)),
    ),
  );
  const table = rows.length
    ? grid(["Run", "Step", "Figure", "Value", "What"], body)
    : el("p", { class: "dim" }, "No warnings of health rules in these runs.");
  return el("section", {}, el("h2", {}, "Health"), table);
}

/** Return the table of configuration that differs, or nothing for a single run. */
export async function differences(get, runs, numbers) {
  if (numbers.length < 2) return el("section", {});
  const { rows } = await get("/api/differences", { runs: numbers.join(",") });
  const names = numbers.map((run) =>
    el("th", { scope: "col" }, word(runs.find((other) => other.run === run)?.name)),
  );
  const cell = (value) =>
    el(
      "td",
      {},
      value === null ? "–" : word(typeof value === "string" ? value : JSON.stringify(value)),
    );
  const body = rows.map(({ key, values }) =>
    el("tr", {}, el("th", { scope: "row" }, word(key)), values.map(cell)),
  );
  const table = grid(["Setting", ...names], body);
  const same = el("p", { class: "dim" }, "These runs have the same configuration.");
  return el("section", {}, el("h2", {}, "Configuration that differs"), rows.length ? table : same);
}
