/** Lanes of workers over the steps: one per worker, or one for all if only totals are recorded. */

import { el, grid, svg } from "./dom.js";
import { number } from "./format.js";

const WIDTH = 720;
const HEIGHT = 22;
const MOST = 240; // largest number of bars of a lane; with more steps a bar has several
const HATCH = "lanes-hatch";

/** Return the mean of the recorded values between two indices; null without values. */
function mean(values, from, to) {
  const recorded = values.slice(from, to).filter((value) => value !== null && value !== undefined);
  return recorded.length ? recorded.reduce((sum, value) => sum + value, 0) / recorded.length : null;
}

/** Return the shares of each bar: [end of playing, end of waiting]; after it workers are absent. */
function bars(lane, steps) {
  const each = Math.ceil(steps.length / MOST);
  const parts = [];
  for (let from = 0; from < steps.length; from += each) {
    const playing = mean(lane.playing, from, from + each);
    const ready = mean(lane.ready, from, from + each);
    parts.push(playing === null || ready === null ? null : [playing, Math.max(ready, playing)]);
  }
  return { each, parts };
}

function boxes(parts, width, low, high) {
  return parts
    .map((part, index) => {
      if (!part) return "";
      const [from, to] = [low(part), high(part)].map((share) => (1 - share) * HEIGHT);
      const [x, end] = [index * width, (index + 1) * width];
      if (to >= from) return "";
      return `M${x.toFixed(2)} ${from.toFixed(2)}V${to.toFixed(2)}H${end.toFixed(2)}V${from}Z`;
    })
    .join("");
}

function shares(lane) {
  const playing = mean(lane.playing, 0, undefined);
  const ready = mean(lane.ready, 0, undefined);
  if (playing === null || ready === null) return [null, null, null];
  return [playing, Math.max(0, ready - playing), Math.max(0, 1 - Math.max(ready, playing))];
}

const percent = (share) => (share === null ? "–" : `${(100 * share).toFixed(1)} %`);

function total(losses) {
  return losses.reduce((sum, [, times]) => sum + times, 0);
}

function strip(lane, steps, name) {
  const [playing, waiting, absent] = shares(lane).map(percent);
  const lossSteps = lane.lost.slice(-8).map(([step]) => step);
  const lossText = lossSteps.length
    ? `; lost ${total(lane.lost)} times, lately in steps ${lossSteps}`
    : "";
  const root = svg("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    width: WIDTH,
    height: HEIGHT,
    class: "lane",
    role: "img",
    preserveAspectRatio: "none",
    "aria-label": `${name}: plays ${playing}, waits ${waiting}, absent ${absent}${lossText}`,
  });
  const { each, parts } = bars(lane, steps);
  const width = WIDTH / Math.max(parts.length, 1);
  const layers = [
    ["plays", (part) => [0, part[0]]],
    ["waits", (part) => [part[0], part[1]]],
    ["away", (part) => [part[1], 1]],
  ];
  for (const [kind, ends] of layers) {
    const d = boxes(
      parts,
      width,
      (part) => ends(part)[0],
      (part) => ends(part)[1],
    );
    const fill = kind === "waits" ? `url(#${HATCH})` : null;
    root.append(svg("path", { d, class: kind, fill }));
  }
  for (const [step, times] of lane.lost) {
    const x = (Math.floor(steps.indexOf(step) / each) + 0.5) * width;
    const mark = svg("path", { d: `M${x - 4} 7l8 8M${x + 4} 7l-8 8`, class: "death" });
    mark.append(svg("title", {}, `step ${step}: lost${times > 1 ? `, ${times} times` : ""}`));
    root.append(mark);
  }
  return root;
}

function row(lane, steps, name) {
  const digits = (text, kind = "") => el("td", { class: `number ${kind}` }, text);
  const numLost = total(lane.lost);
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, name),
    el("td", { class: "lane-cell" }, strip(lane, steps, name)),
    shares(lane).map((share) => digits(percent(share))),
    digits(number(numLost), numLost ? "bad" : ""),
  );
}

/** Return the element that defines the hatching of lanes. */
function hatching() {
  const line = svg("path", { d: "M0 6L6 0", class: "hatch-line" });
  const box = { id: HATCH, width: 6, height: 6, patternUnits: "userSpaceOnUse" };
  const root = svg("svg", { width: 0, height: 0, class: "hatching", "aria-hidden": "true" });
  root.append(svg("defs", {}, svg("pattern", box, line)));
  return root;
}

function key() {
  const item = (kind, text) => {
    const box = { viewBox: "0 0 16 12", width: 16, height: 12, "aria-hidden": "true" };
    const fill = kind === "waits" ? `url(#${HATCH})` : null;
    const d = kind === "death" ? "M4 2l8 8M12 2l-8 8" : "M0 0H16V12H0Z";
    return el("span", {}, svg("svg", box, svg("path", { d, class: kind, fill })), ` ${text}`);
  };
  const all = [
    item("plays", "plays"),
    item("waits", "waits"),
    item("away", "absent: starting or lost"),
    item("death", "lost in this step"),
  ];
  return el("p", { class: "lane-key dim" }, all);
}

function remark({ lanes, wanted, step }) {
  const stepsPerBar = Math.ceil(step.length / MOST);
  const each = stepsPerBar > 1 ? `, ${stepsPerBar} steps to a bar` : "";
  const from = `Steps ${step[0]} to ${step.at(-1)}${each}. A bar is the share of a step's time.`;
  if (!lanes.length)
    return `${from} Of each worker by itself nothing is recorded: one lane is of all ${wanted}.`;
  return lanes.length < wanted
    ? `${from} Recorded are the first ${lanes.length} workers of ${wanted}, and all together.`
    : from;
}

/** Return the lanes of an answer of /workers. */
export function workerLanes(answer) {
  const { lanes, all, step } = answer;
  const titles = ["worker", "over the steps", "plays", "waits", "absent", "lost"];
  const rows = lanes.map((lane) => row(lane, step, `worker ${lane.worker}`));
  rows.push(row(all, step, "all workers"));
  return el(
    "section",
    { class: "lanes-of" },
    el("h2", {}, "Workers: playing, waiting and lost"),
    el("p", { class: "dim" }, remark(answer)),
    hatching(),
    grid(titles, rows, { class: "lanes" }),
    key(),
  );
}
