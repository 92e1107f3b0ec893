/** The controls above the curves: axis, smoothing, runs, figures. */

import { paint } from "./charts.js";
import { AXES, AXIS_NAMES, groups } from "./curves_chart.js";
import { button, el, plain, word } from "./dom.js";
import { count } from "./format.js";
import { meaning } from "./metric_names.js";
import { address, change } from "./router.js";

const FOUND = 60; // largest number of names that a search lists

function axisChoice(choice) {
  const options = AXES.map((name) =>
    el("option", { value: name, selected: name === choice.x }, AXIS_NAMES[name] ?? name),
  );
  return el(
    "label",
    {},
    "x ",
    el("select", { on: { change: (e) => change({ x: e.target.value }, true) } }, options),
  );
}

function smoothing(choice) {
  const output = el("output", {}, choice.smooth.toFixed(2));
  const input = el("input", {
    type: "range",
    min: 0,
    max: 0.99,
    step: 0.01,
    value: choice.smooth,
    "aria-label": "smoothing",
  });
  input.addEventListener("input", () => (output.textContent = Number(input.value).toFixed(2)));
  input.addEventListener("change", () => change({ smooth: input.value }, true));
  return el("label", {}, "smoothing ", input, " ", output);
}

function toggle(label, key, checked) {
  const box = el("input", {
    type: "checkbox",
    on: { change: (e) => change({ [key]: e.target.checked ? "1" : "" }, true) },
  });
  box.checked = checked;
  return el("label", {}, box, ` ${label}`);
}

/** Return the runs, each with the colour of its line. */
export function legend(runs, choice) {
  const all = groups(runs, choice);
  const colourOf = (run) =>
    paint(
      Math.max(
        0,
        all.findIndex((group) => group.members.includes(run)),
      ),
    ).colour;
  const item = (run) => {
    const on = choice.runs.includes(run.run);
    const others = choice.runs.filter((number) => number !== run.run);
    const next = on ? others : [...choice.runs, run.run];
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
  return el("div", { class: "legend", role: "group", "aria-label": "runs" }, runs.map(item));
}

/** Return the row of tools. */
export function toolsOf(search, choice) {
  return [
    search,
    axisChoice(choice),
    smoothing(choice),
    toggle("log y", "log", choice.log),
    toggle("seeds as mean and band", "group", choice.grouped),
    el("a", { class: "action", href: address({ view: "replay", run: choice.runs[0] }) }, "Replays"),
  ];
}

function choiceOf(name, choice) {
  const on = choice.names.includes(name);
  const next = on ? choice.names.filter((other) => other !== name) : [...choice.names, name];
  const choose = () => change({ metrics: next.join(",") }, true);
  const title = meaning(name) && plain(meaning(name), 200);
  return button(word(name), choose, { "aria-pressed": String(on), class: "pick", title });
}

/** Return a button for each figure that matches the search, or for each drawn figure. */
export function figures(figureSections, choice, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const all = figureSections.flatMap(([, names]) => names);
  const matches = all.filter((name) => words.every((part) => name.toLowerCase().includes(part)));
  const results = words.length ? matches : choice.names;
  const rest = results.length > FOUND ? `and ${results.length - FOUND} more, ` : "";
  const remark = words.length ? rest + count(matches.length, "name") : "";
  return [
    ...results.slice(0, FOUND).map((name) => choiceOf(name, choice)),
    el("span", { class: "dim" }, remark),
  ];
}

/** Fill the list of all figures, section by section; it stays open or closed. */
export function listFigures(list, figureSections, choice) {
  const all = figureSections.flatMap(([, names]) => names);
  const rows = figureSections
    .filter(([, names]) => names.length)
    .map(([section, names]) => [
      el("h3", {}, section, el("span", { class: "dim" }, ` ${names.length}`)),
      el("div", { class: "presets" }, names.map((name) => choiceOf(name, choice))),
    ]);
  list.replaceChildren(el("summary", {}, `all ${count(all.length, "figure")}`), ...rows.flat());
}
