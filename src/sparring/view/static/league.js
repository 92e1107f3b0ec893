/** The league of a run: ratings with intervals, results of pairs, exploitability over time. */

import { draw, paint } from "./charts.js";
import { el, empty, grid, missing, plain, svg, word } from "./dom.js";
import { Tree } from "./family.js";
import { count, number, probability, signed } from "./format.js";
import { metaStrategy } from "./meta.js";
import { noRuns, runChoice } from "./run_choice.js";
import { address, state } from "./router.js";
import { diverging } from "./tokens.js";

const WIDTH = 240;

/** Return a dot and its interval between 0 and 1; the middle line is one half. */
function dot({ win_rate: rate, low, high }) {
  const root = svg("svg", {
    viewBox: `0 0 ${WIDTH} 18`,
    width: WIDTH,
    height: 18,
    class: "dots",
    role: "img",
  });
  root.setAttribute(
    "aria-label",
    `win rate ${probability(rate)}, from ${probability(low)} to ${probability(high)}`,
  );
  const at = (value) => 4 + value * (WIDTH - 8);
  root.append(svg("path", { d: `M${at(0)} 9H${at(1)}M${at(0.5)} 1V17`, class: "grid" }));
  if (rate === null) return root;
  if (low !== null && high !== null)
    root.append(svg("path", { d: `M${at(low)} 9H${at(high)}`, class: "interval" }));
  root.append(svg("circle", { cx: at(rate), cy: 9, r: 4, class: "dot" }));
  return root;
}

/** Return how many more episodes a narrow interval needs, in words; "" if unknown. */
function playsMore(result, half) {
  if (result.plays_more === null || result.plays_more === undefined) return "";
  if (result.plays_more === 0) return `within ±${half}`;
  return `about ${count(result.plays_more, "more episode")} for ±${half}`;
}

/** Return a cell of the payoffs in a sentence. */
function cellText(result, { half, fades }) {
  const pair = `${plain(result.player)} against ${plain(result.opponent)}`;
  const plays = result.exact ? ", exact" : ` in ${count(result.games, "episode")}`;
  const mean = `mean return ${signed(result.mean_return)}${plays}`;
  if (result.win_rate === null) return `${pair}: ${mean}; nothing was decided.`;
  const rate = `win rate ${probability(result.win_rate)}`;
  if (result.exact) return `${pair}: ${mean}; ${rate}.`;
  const ends = `95 % interval ${probability(result.low)} to ${probability(result.high)}`;
  const more = fades
    ? "older episodes count less (league.payoff_decay), so more episodes hardly narrow it"
    : playsMore(result, half);
  return `${pair}: ${mean}; ${rate}, ${ends}, ${more}.`;
}

function standingRow(run, result, half) {
  const isClear = result.exact || result.low > 0.5 || result.high < 0.5;
  const href = address({
    view: "replay",
    run,
    "f.player": result.opponent,
    "f.game": result.environment,
  });
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, word(result.player)),
    el("td", {}, el("a", { href }, word(result.opponent))),
    el("td", { class: "number" }, result.exact ? "exact" : number(result.games)),
    el("td", { class: "number" }, signed(result.mean_return)),
    el("td", { class: "number" }, probability(result.win_rate)),
    el("td", {}, dot(result)),
    el(
      "td",
      { class: "dim remark" },
      [
        result.win_rate === null ? "nothing was decided" : isClear ? "" : "no difference shown",
        result.plays_more ? playsMore(result, half) : "",
      ]
        .filter(Boolean)
        .join("; "),
    ),
  );
}

function standings(run, environment, rows, league) {
  const numbers = ["Episodes", "Mean return", "Win rate", "95 % interval, line at one half"];
  const cells = rows.map((result) => standingRow(run, result, league.half));
  const table = grid(["Player", "Against", ...numbers, "Remark"], cells);
  const heat = payoffs(run, environment, rows, league);
  return el("section", {}, el("h2", {}, word(environment)), table, heat);
}

/** Return the mean returns as a heat map, where there are several players and opponents. */
function payoffs(run, environment, rows, league) {
  const players = [...new Set(rows.map((result) => result.player))];
  const opponentSet = new Set(rows.map((result) => result.opponent));
  const names = [...new Set([...players, ...opponentSet])];
  const opponents = names.filter((name) => opponentSet.has(name));
  if (players.length < 2) return null;
  const description = el("p", { role: "status", class: "dim cell-said" });
  const scale = Math.max(...rows.map((result) => Math.abs(result.mean_return ?? 0)));
  const cell = (player, opponent) => {
    const result = rows.find((row) => row.player === player && row.opponent === opponent);
    if (!result) return el("td", { class: "number dim" }, "–");
    const href = address({ view: "replay", run, "f.player": opponent, "f.game": environment });
    const sentence = cellText(result, league);
    const tell = () => description.replaceChildren(word(sentence));
    const on = { focus: tell, pointerenter: tell };
    const link = el("a", { href, title: sentence, on }, signed(result.mean_return));
    return el("td", { class: `number ${diverging(result.mean_return, scale)}` }, link);
  };
  const titles = ["Player", ...opponents.map((name) => el("th", { scope: "col" }, word(name)))];
  const body = players.map((player) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, word(player)),
      opponents.map((name) => cell(player, name)),
    ),
  );
  const title = "Mean return of each row's player against each column's";
  return el("div", {}, el("h3", {}, title), grid(titles, body, { class: "heat" }), description);
}

/** Open the view. */
export function open(root, { get, setKeys }) {
  const choice = runChoice(get);
  const body = el("div", {});
  const curves = el("div", { class: "charts" });
  const answerNote = el("p", { class: "dim answer-said" });
  const view = { handles: [], run: null };
  const tree = new Tree();
  const meta = el("section", { class: "meta-strategy" });
  const parts = [body, meta, tree.node, answerNote, curves];
  root.replaceChildren(el("h1", {}, "League"), choice.node, ...parts);
  setKeys(tree.keys());

  /** Show the weights of members, or why there are none. */
  async function weigh(run, now) {
    const values = { solver: now.solver, environment: now.of };
    const answer = await get(`/api/runs/${run}/meta`, values).catch((error) => error);
    const focusIndex = [...meta.querySelectorAll("select")].indexOf(document.activeElement);
    if (answer instanceof Error) meta.replaceChildren(missing("meta-strategy", answer.message));
    else meta.replaceChildren(...metaStrategy(answer, now));
    const select = meta.querySelectorAll("select")[focusIndex];
    if (focusIndex >= 0) select?.focus({ preventScroll: true });
  }

  async function exploitability(run, { exploitability: names = [], answer }) {
    view.handles.forEach((handle) => handle.close());
    view.handles = [];
    curves.replaceChildren();
    answerNote.replaceChildren();
    if (!names.length) return;
    answerNote.replaceChildren("Exploitability over time is that of ", word(answer), ".");
    const { series, events } = await get(`/api/runs/${run}/series`, { names: names.join(",") });
    const labels = { xLabel: "step", yLabel: "nash_conv", fromZero: true };
    for (const name of names.filter((result) => series[result])) {
      const box = el("div", { class: "chart" });
      curves.append(el("section", { class: "card" }, el("h2", {}, word(name)), box));
      const line = { name, x: series[name].x, y: series[name].y, ...paint(0) };
      const marks = events
        .filter((event) => event.metric === name)
        .map(({ x, message }) => ({ x, text: message, level: "warn" }));
      view.handles.push(draw(box, { ...labels, title: name, series: [line], events: marks }));
    }
  }

  async function show(now) {
    const run = await choice.update(now);
    if (run === null) {
      body.replaceChildren(noRuns());
      return;
    }
    view.run = run;
    const league = await get(`/api/runs/${run}/league`);
    if (league.none) {
      for (const node of [body, meta, tree.node]) node.replaceChildren();
      body.append(empty(league.none, "sparring train RECIPE league.every=50"));
      await exploitability(run, {});
      return;
    }
    const environments = [...new Set(league.standings.map((result) => result.environment))];
    const tables = environments.map((name) =>
      standings(
        run,
        name,
        league.standings.filter((result) => result.environment === name),
        league,
      ),
    );
    const notes = (league.notes ?? []).map((note) => el("p", { class: "note" }, word(note)));
    const members = el(
      "p",
      { class: "dim" },
      "Members: ",
      (league.players ?? []).map((name) => [word(name), " "]),
    );
    const none = missing("standings", "members have not played each other yet");
    const at = league.step === null ? "" : `as of the checkpoint of step ${league.step}`;
    body.replaceChildren(
      el("p", { class: "dim" }, at),
      members,
      ...notes,
      ...(tables.length ? tables : [none]),
    );
    const weighing = weigh(run, now);
    tree.show(await get(`/api/runs/${run}/family`));
    await exploitability(run, league);
    await weighing;
  }

  return {
    show,
    changed: ({ runs }) => (runs?.includes(view.run) ? show(state()) : null),
    themed: () => show(state()),
    close: () => view.handles.forEach((handle) => handle.close()),
  };
}
