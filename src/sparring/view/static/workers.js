/** The workers of a run: playing, waiting, and faults. */

import { draw, paint } from "./charts.js";
import { el, empty, grid, word } from "./dom.js";
import { count, number } from "./format.js";
import { workerLanes } from "./lanes.js";
import { state } from "./router.js";
import { noRuns, runChoice } from "./run_choice.js";

const FIGURES = [
  ["ready", "Workers ready", "workers"],
  ["players_idle", "Share of time that workers wait", "share"],
  ["learner_idle", "Share of time that the learner waits", "share"],
  ["lag", "Staleness: updates between the weights that sampled and those that learn", "updates"],
];

const NOBODY = "No workers: the training process played its episodes itself. To play in processes:";

function faultRow({ text, total, steps }) {
  const stepTexts = steps
    .slice(-8)
    .map(([step, times]) => (times > 1 ? `${step} (${times})` : `${step}`));
  const more = steps.length > 8 ? "… " : "";
  const kind = total ? "warn" : "dim";
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, word(text)),
    el("td", { class: `number ${kind}` }, number(total)),
    el("td", { class: "dim" }, more + stepTexts.join(", ")),
  );
}

function faults(rows) {
  const table = rows.length
    ? grid(["What", "Times", "Steps (newest last)"], rows.map(faultRow))
    : el("p", { class: "dim" }, "Nothing.");
  return el("section", {}, el("h2", {}, "What went wrong"), table);
}

function account(rows) {
  if (!rows.length) return "";
  const cells = ({ text, number: episodes }) => [
    el("th", { scope: "row" }, word(text)),
    el("td", { class: "number" }, number(episodes)),
  ];
  const table = grid(["State", "Episodes"], rows.map((row) => el("tr", {}, cells(row))));
  return el("section", {}, el("h2", {}, "Episodes by state"), table);
}

/** Open the view. */
export function open(root, { get, setKeys }) {
  const choice = runChoice(get);
  const body = el("div", {});
  const charts = el("div", { class: "charts" });
  const under = el("div", {});
  const view = { handles: [], run: null };
  root.replaceChildren(el("h1", {}, "Workers"), choice.node, body, charts, under);
  setKeys([]);

  function drawAll(answer) {
    view.handles.forEach((handle) => handle.close());
    view.handles = [];
    charts.replaceChildren();
    const events = (answer.faults ?? []).flatMap(({ text, steps }) =>
      steps.map(([x, times]) => ({ x, text: `${text}: ${times}`, level: "bad" })),
    );
    FIGURES.forEach(([key, title, yLabel], index) => {
      if (!answer[key]?.some((value) => value !== null)) return; // a lag of 0 is not recorded
      const box = el("div", { class: "chart" });
      charts.append(el("section", { class: "card" }, el("h2", {}, title), box));
      const line = { name: title, x: answer.step, y: answer[key], ...paint(index) };
      const chart = {
        title,
        xLabel: "step",
        yLabel,
        series: [line],
        events: key === "ready" ? events : [],
        height: 150,
      };
      view.handles.push(draw(box, chart));
    });
  }

  async function show(now) {
    const run = await choice.update(now);
    if (run === null) {
      body.replaceChildren(noRuns());
      return;
    }
    view.run = run;
    const answer = await get(`/api/runs/${run}/workers`);
    const sentence = answer.workers
      ? el("p", {}, word(answer.sentence ?? ""))
      : empty(NOBODY, "sparring train RECIPE scale.fleet=processes scale.workers=2");
    const steps = answer.workers ? `${count(answer.step.length, "step")} shown` : "";
    const lanes = answer.workers ? workerLanes(answer) : "";
    body.replaceChildren(sentence, el("p", { class: "dim" }, steps), lanes);
    if (answer.workers) {
      drawAll(answer);
      under.replaceChildren(account(answer.account ?? []), faults(answer.faults ?? []));
    } else {
      view.handles.forEach((handle) => handle.close());
      view.handles = [];
      charts.replaceChildren();
      under.replaceChildren();
    }
  }

  return {
    show,
    changed: ({ runs }) => (runs?.includes(view.run) ? show(state()) : null),
    themed: () => show(state()),
    close: () => view.handles.forEach((handle) => handle.close()),
  };
}
