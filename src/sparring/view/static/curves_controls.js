/** What is chosen above the curves: axis, smoothing, runs, figures. */

import { paint } from "./charts.js";
import { AXES, AXIS_NAMES, groups } from "./curves_chart.js";
import { button, el, plain, word } from "./dom.js";
import { count } from "./format.js";
import { meaning } from "./metric_names.js";
import { address, change } from "./router.js";

const FOUND = 60; // names listed by a search

function axisChoice(set) {
  const options = AXES.map((name) =>
    el("option", { value: name, selected: name === set.x }, AXIS_NAMES[name] ?? name),
  );
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

function choiceOf(name, set) {
  const on = set.names.includes(name);
  const next = on ? set.names.filter((other) => other !== name) : [...set.names, name];
  const choose = () => change({ metrics: next.join(",") }, true);
  const title = meaning(name) && plain(meaning(name), 200);
  return button(word(name), choose, { "aria-pressed": String(on), class: "pick", title });
}

/** Return buttons of the figures that match a search, or of those whose charts are drawn. */
export function figures(known, set, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const all = known.flatMap(([, names]) => names);
  const some = all.filter((name) => words.every((part) => name.toLowerCase().includes(part)));
  const found = words.length ? some : set.names;
  const rest = found.length > FOUND ? `and ${found.length - FOUND} more, ` : "";
  const said = words.length ? rest + count(some.length, "name") : "";
  return [
    ...found.slice(0, FOUND).map((name) => choiceOf(name, set)),
    el("span", { class: "dim" }, said),
  ];
}

/** Fill the list of all figures, section by section; it stays open or closed. */
export function listFigures(list, known, set) {
  const all = known.flatMap(([, names]) => names);
  const rows = known
    .filter(([, names]) => names.length)
    .map(([section, names]) => [
      el("h3", {}, section, el("span", { class: "dim" }, ` ${names.length}`)),
      el("div", { class: "presets" }, names.map((name) => choiceOf(name, set))),
    ]);
  list.replaceChildren(el("summary", {}, `all ${count(all.length, "figure")}`), ...rows.flat());
}
