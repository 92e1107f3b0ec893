/** The summary of one run: settings, progress, key figures, health, and links. */

import { el, grid, plain, word } from "./dom.js";
import { count, number, seconds } from "./format.js";
import { beginsAtZero, better, meaning } from "./metric_names.js";
import { address } from "./router.js";

const MOST = 8; // largest number of figures in the table
const BESIDE = /^(nash_conv|optimality_gap|return)\//; // shown beside random or best play

function facts(run, { config }) {
  const models = Object.keys(config).filter((key) => /(^|\.)model\.name$/.test(key));
  const values = {
    Recipe: run.recipe,
    Model: [...new Set(models.map((key) => config[key]))].join(", "),
    Environment: (run.environments ?? []).join(", "),
    Steps: `${number(run.step)} of ${number(run.steps)}`,
    Episodes: number(run.plays),
    Duration: seconds(run.seconds),
    Seed: run.seed,
  };
  const all = Object.entries(values).filter(([, value]) => (value ?? "") !== "");
  const fact = ([name, value]) => el("span", {}, `${name} `, el("b", {}, word(value)));
  return el("p", { class: "tools dim" }, all.map(fact));
}

/** Return the share of the way from random play to best play that a distance has gone. */
function way(name, value, random, best) {
  if (!beginsAtZero(name) || !random || !best || random.value <= best.value) return "–";
  return `${Math.round((100 * (random.value - value)) / (random.value - best.value))} %`;
}

function figureRow(name, { step, value }, references) {
  const random = references?.find((line) => line.label === "random play");
  const best = references?.find((line) => line !== random);
  const direction = better(name) && el("span", { class: "dim" }, ` ${better(name)} is better`);
  const ends = [random?.value, best?.value].map((end) => number(end, 3));
  const comparison = references ? [...ends, way(name, value, random, best)] : [];
  const titles = [`measured at step ${step}`, null, best && plain(best.label)];
  const cells = [number(value, 3), ...comparison].map((text, at) =>
    el("td", { class: "number", title: titles[at] }, text),
  );
  const title = plain(meaning(name), 300) || null;
  return el("tr", {}, el("th", { scope: "row", title }, word(name), direction), cells);
}

/** Return the table of key figures, beside random and best play if they are known for one. */
function figures(run, references) {
  const names = Object.keys(run.newest ?? {})
    .filter((name) => run.key.includes(name) || (BESIDE.test(name) && references[name]))
    .sort((name, other) => beginsAtZero(other) - beginsAtZero(name))
    .slice(0, MOST);
  if (!names.length) return el("p", { class: "dim" }, "No figure is measured yet.");
  const solved = names.some((name) => references[name]);
  const ends = solved ? ["Random play", "Best play", "From random to best"] : [];
  const head = ["Last", ...ends].map((text) => el("th", { scope: "col", class: "number" }, text));
  const referencesOf = (name) => references[name] ?? (solved ? [] : null);
  const rows = names.map((name) => figureRow(name, run.newest[name], referencesOf(name)));
  return grid(["Figure", ...head], rows);
}

/** Return the summary of a run: a row of /api/runs, /api/runs/RUN, and its /references. */
export function summary(run, details, references) {
  const { events = 0, event, episodes } = run;
  const warningText = `Health: ${count(events, "warning")}, listed below the curves; the newest: `;
  const to = (view, label) =>
    el("a", { href: address({ view, run: run.run }), class: "action" }, label);
  const links = [
    to("replay", `Replays of ${count(episodes?.rows ?? 0, "episode")}`),
    ...[to("league", "League"), to("workers", "Workers"), to("play", "Play against it")],
  ];
  return el(
    "div",
    { role: "group", class: "summary card", "aria-label": "summary of the run" },
    el("h2", {}, word(run.name), " ", el("span", { class: `state ${run.state}` }, run.state)),
    facts(run, details),
    figures(run, references),
    el("p", { class: "dim" }, word(details.weights)),
    event ? el("p", { class: "warn" }, warningText, word(event.message)) : "Health: no warnings.",
    el("p", { class: "tools" }, "Look next: the curves below, ", links),
  );
}
