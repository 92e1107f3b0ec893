/** The workers of a run: who plays, who waits, what went wrong. */

import { draw, paint } from "./charts.js";
import { el, missing, word } from "./dom.js";
import { count, number } from "./format.js";
import { workerLanes } from "./lanes.js";
import { state } from "./router.js";
import { runChoice } from "./run_choice.js";

const FIGURES = [
  ["ready", "Workers ready", "workers"],
  ["players_idle", "Share of time that workers wait", "share"],
  ["learner_idle", "Share of time that the learner waits", "share"],
  ["lag", "Lag: updates between the playing weights and the learner's", "updates"],
];

function faultRow({ text, total, steps }) {
  const when = steps
    .slice(-8)
    .map(([step, times]) => (times > 1 ? `${step} (${times})` : `${step}`));
  const more = steps.length > 8 ? "… " : "";
  const kind = total ? "warn" : "dim";
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, word(text)),
    el("td", { class: `number ${kind}` }, number(total)),
    el("td", { class: "dim" }, more + when.join(", ")),
  );
}

function faults(rows) {
  const head = ["What", "Times", "Steps (newest last)"].map((text) =>
    el("th", { scope: "col" }, text),
  );
  const table = el(
    "table",
    {},
    el("thead", {}, el("tr", {}, head)),
    el("tbody", {}, rows.map(faultRow)),
  );
  return el(
    "section",
    {},
    el("h2", {}, "What went wrong"),
    rows.length ? table : el("p", { class: "dim" }, "Nothing."),
  );
}

function account(rows) {
  const line = ({ text, number: plays }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, word(text)),
      el("td", { class: "number" }, number(plays)),
    );
  return rows.length
    ? el(
        "section",
        {},
        el("h2", {}, "Plays by state"),
        el("table", {}, el("tbody", {}, rows.map(line))),
      )
    : "";
}

/** Open the view. */
export function open(root, { get, setKeys }) {
  const choice = runChoice(get);
  const body = el("div", {});
  const charts = el("div", { class: "charts" });
  const under = el("div", {});
  const held = { shown: [], run: null };
  root.replaceChildren(el("h1", {}, "Workers"), choice.node, body, charts, under);
  setKeys([]);

  function drawAll(answer) {
    held.shown.forEach((handle) => handle.close());
    held.shown = [];
    charts.replaceChildren();
    const events = (answer.faults ?? []).flatMap(({ text, steps }) =>
      steps.map(([x, times]) => ({ x, text: `${text}: ${times}`, level: "bad" })),
    );
    FIGURES.forEach(([key, title, yLabel], index) => {
      if (!answer[key]?.some((value) => value !== null)) return; // no lag is recorded where it is 0
      const box = el("div", { class: "chart" });
      charts.append(el("section", { class: "card" }, el("h2", {}, title), box));
      const line = { name: title, x: answer.step, y: answer[key], ...paint(index) };
      const shown = {
        title,
        xLabel: "step",
        yLabel,
        series: [line],
        events: key === "ready" ? events : [],
        height: 150,
      };
      held.shown.push(draw(box, shown));
    });
  }

  async function show(now) {
    const run = await choice.update(now);
    if (run === null) {
      body.replaceChildren(missing("runs", "there is none"));
      return;
    }
    held.run = run;
    const answer = await get(`/api/runs/${run}/workers`);
    const nobody =
      "No workers: the training process played by itself. " +
      "Workers: scale.fleet=processes scale.workers=2";
    const said = answer.workers ? answer.sentence : nobody;
    const steps = answer.workers ? `${count(answer.step.length, "step")} shown` : "";
    const lanes = answer.workers ? workerLanes(answer) : "";
    body.replaceChildren(el("p", {}, word(said ?? "")), el("p", { class: "dim" }, steps), lanes);
    if (answer.workers) {
      drawAll(answer);
      under.replaceChildren(account(answer.account ?? []), faults(answer.faults ?? []));
    } else {
      held.shown.forEach((handle) => handle.close());
      held.shown = [];
      charts.replaceChildren();
      under.replaceChildren();
    }
  }

  return {
    show,
    changed: ({ runs }) => (runs?.includes(held.run) ? show(state()) : null),
    themed: () => show(state()),
    close: () => held.shown.forEach((handle) => handle.close()),
  };
}
