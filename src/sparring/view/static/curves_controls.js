/** What is chosen above the curves: axis, smoothing, runs, figures. */

import { paint } from "./charts.js";
import { AXES, groups } from "./curves_chart.js";
import { button, el, word } from "./dom.js";
import { count } from "./format.js";
import { address, change } from "./router.js";

const FOUND = 60; // names listed by a search

function axisChoice(set) {
  const options = AXES.map((name) => el("option", { value: name, selected: name === set.x }, name));
  return el(
    "label",
    {},
    "x ",
    el("select", { on: { change: (e) => change({ x: e.target.value }, true) } }, options),
  );
}

function smoothing(set) {
  const shown = el("output", {}, set.smooth.toFixed(2));
  const input = el("input", {
    type: "range",
    min: 0,
    max: 0.99,
    step: 0.01,
    value: set.smooth,
    "aria-label": "smoothing",
  });
  input.addEventListener("input", () => (shown.textContent = Number(input.value).toFixed(2)));
  input.addEventListener("change", () => change({ smooth: input.value }, true));
  return el("label", {}, "smoothing ", input, " ", shown);
}

function toggle(label, key, on) {
  const box = el("input", {
    type: "checkbox",
    on: { change: (e) => change({ [key]: e.target.checked ? "1" : "" }, true) },
  });
  box.checked = on;
  return el("label", {}, box, ` ${label}`);
}

/** Return the runs, each with the colour of its line. */
export function legend(runs, set) {
  const all = groups(runs, set);
  const colourOf = (run) =>
    paint(
      Math.max(
        0,
        all.findIndex((group) => group.members.includes(run)),
      ),
    ).colour;
  const one = (run) => {
    const on = set.runs.includes(run.run);
    const next = on ? set.runs.filter((number) => number !== run.run) : [...set.runs, run.run];
    const box = el("input", {
      type: "checkbox",
      on: { change: () => change({ runs: next.join(",") }, true) },
    });
    box.checked = on;
    const mark = el("span", {
      class: "swatch",
      vars: { "--c": on ? colourOf(run) : "var(--line)" },
    });
    return el("label", { class: on ? "on" : "" }, box, mark, word(run.name));
  };
  return el("div", { class: "legend", role: "group", "aria-label": "runs" }, runs.map(one));
}

/** Return the names of all figures of some runs. */
export function names(answers) {
  const all = answers.flatMap((one) => [...(one.metrics ?? []), ...(one.timing ?? [])]);
  return [...new Set(all)].sort();
}

/** Return the row of tools. */
export function toolsOf(search, set) {
  return [
    search,
    axisChoice(set),
    smoothing(set),
    toggle("log y", "log", set.log),
    toggle("seeds as mean and band", "group", set.grouped),
    el("a", { class: "action", href: address({ view: "replay", run: set.runs[0] }) }, "Replays"),
  ];
}

/** Return buttons of the figures that match, or of those shown where nothing is searched. */
export function figures(known, set, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const some = known.filter((name) => words.every((part) => name.toLowerCase().includes(part)));
  const found = words.length ? some : set.names;
  const one = (name) => {
    const on = set.names.includes(name);
    const next = on ? set.names.filter((other) => other !== name) : [...set.names, name];
    const choose = () => change({ metrics: next.join(",") }, true);
    return button(word(name), choose, { "aria-pressed": String(on), class: "pick" });
  };
  const rest = found.length > FOUND ? `and ${found.length - FOUND} more, ` : "";
  const said = words.length ? count(found.length, "name") : `of ${known.length} figures`;
  return [...found.slice(0, FOUND).map(one), el("span", { class: "dim" }, rest + said)];
}
