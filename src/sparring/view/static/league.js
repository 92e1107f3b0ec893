/** The league of a run: ratings with intervals, who beats whom, exploitability over time. */

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

/** Return how many plays more would make an interval narrow, in words; "" where that is unknown. */
function playsMore(one, half) {
  if (one.plays_more === null || one.plays_more === undefined) return "";
  if (one.plays_more === 0) return `within ±${half}`;
  return `about ${count(one.plays_more, "more episode")} for ±${half}`;
}

/** Return a cell of the payoffs in a sentence. */
function told(one, { half, fades }) {
  const met = `${plain(one.player)} against ${plain(one.opponent)}`;
  const plays = one.exact ? ", exact" : ` in ${count(one.games, "episode")}`;
  const mean = `mean return ${signed(one.mean_return)}${plays}`;
  if (one.win_rate === null) return `${met}: ${mean}; nothing was decided.`;
  const rate = `win rate ${probability(one.win_rate)}`;
  if (one.exact) return `${met}: ${mean}; ${rate}.`;
  const ends = `95 % interval ${probability(one.low)} to ${probability(one.high)}`;
  const more = fades
    ? "older episodes count less (league.payoff_decay), so more episodes hardly narrow it"
    : playsMore(one, half);
  return `${met}: ${mean}; ${rate}, ${ends}, ${more}.`;
}

function standingRow(run, one, half) {
  const sure = one.exact || one.low > 0.5 || one.high < 0.5;
  const games = address({
    view: "replay",
    run,
    "f.player": one.opponent,
    "f.game": one.environment,
  });
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, word(one.player)),
    el("td", {}, el("a", { href: games }, word(one.opponent))),
    el("td", { class: "number" }, one.exact ? "exact" : number(one.games)),
    el("td", { class: "number" }, signed(one.mean_return)),
    el("td", { class: "number" }, probability(one.win_rate)),
    el("td", {}, dot(one)),
    el(
      "td",
      { class: "dim remark" },
      [
        one.win_rate === null ? "nothing was decided" : sure ? "" : "no difference shown",
        one.plays_more ? playsMore(one, half) : "",
      ]
        .filter(Boolean)
        .join("; "),
    ),
  );
}

function standings(run, environment, rows, league) {
  const numbers = ["Episodes", "Mean return", "Win rate", "95 % interval, line at one half"];
  const cells = rows.map((one) => standingRow(run, one, league.half));
  const table = grid(["Player", "Against", ...numbers, "Remark"], cells);
  const heat = payoffs(run, environment, rows, league);
  return el("section", {}, el("h2", {}, word(environment)), table, heat);
}

/** Return the mean returns as a heat map, where there are several players and opponents. */
function payoffs(run, environment, rows, league) {
  const players = [...new Set(rows.map((one) => one.player))];
  const met = new Set(rows.map((one) => one.opponent));
  const opponents = [...new Set([...players, ...met])].filter((name) => met.has(name));
  if (players.length < 2) return null;
  const said = el("p", { role: "status", class: "dim cell-said" });
  const scale = Math.max(...rows.map((one) => Math.abs(one.mean_return ?? 0)));
  const cell = (player, opponent) => {
    const one = rows.find((row) => row.player === player && row.opponent === opponent);
    if (!one) return el("td", { class: "number dim" }, "–");
    const href = address({ view: "replay", run, "f.player": opponent, "f.game": environment });
    const sentence = told(one, league);
    const tell = () => said.replaceChildren(word(sentence));
    const on = { focus: tell, pointerenter: tell };
    const link = el("a", { href, title: sentence, on }, signed(one.mean_return));
    return el("td", { class: `number ${diverging(one.mean_return, scale)}` }, link);
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
  return el("div", {}, el("h3", {}, title), grid(titles, body, { class: "heat" }), said);
}

/** Open the view. */
export function open(root, { get, setKeys }) {
  const choice = runChoice(get);
  const body = el("div", {});
  const curves = el("div", { class: "charts" });
  const said = el("p", { class: "dim answer-said" });
  const held = { shown: [], run: null };
  const tree = new Tree();
  const meta = el("section", { class: "meta-strategy" });
  root.replaceChildren(el("h1", {}, "League"), choice.node, body, meta, tree.node, said, curves);
  setKeys(tree.keys());

  /** Show the weights of members; the page goes on where there are none. */
  async function weigh(run, now) {
    const values = { solver: now.solver, environment: now.of };
    const answer = await get(`/api/runs/${run}/meta`, values).catch((error) => error);
    const at = [...meta.querySelectorAll("select")].indexOf(document.activeElement);
    if (answer instanceof Error) meta.replaceChildren(missing("meta-strategy", answer.message));
    else meta.replaceChildren(...metaStrategy(answer, now));
    if (at >= 0) meta.querySelectorAll("select")[at]?.focus({ preventScroll: true });
  }

  async function exploitability(run, { exploitability: names = [], answer }) {
    held.shown.forEach((handle) => handle.close());
    held.shown = [];
    curves.replaceChildren();
    said.replaceChildren();
    if (!names.length) return;
    said.replaceChildren("Exploitability over time is that of ", word(answer), ".");
    const { series, events } = await get(`/api/runs/${run}/series`, { names: names.join(",") });
    const labels = { xLabel: "step", yLabel: "nash_conv", fromZero: true };
    for (const name of names.filter((one) => series[one])) {
      const box = el("div", { class: "chart" });
      curves.append(el("section", { class: "card" }, el("h2", {}, word(name)), box));
      const line = { name, x: series[name].x, y: series[name].y, ...paint(0) };
      const marks = events
        .filter((event) => event.metric === name)
        .map(({ x, message }) => ({ x, text: message, level: "warn" }));
      held.shown.push(draw(box, { ...labels, title: name, series: [line], events: marks }));
    }
  }

  async function show(now) {
    const run = await choice.update(now);
    if (run === null) {
      body.replaceChildren(noRuns());
      return;
    }
    held.run = run;
    const league = await get(`/api/runs/${run}/league`);
    if (league.none) {
      for (const node of [body, meta, tree.node]) node.replaceChildren();
      body.append(empty(league.none, "sparring train RECIPE league.every=50"));
      await exploitability(run, {});
      return;
    }
    const environments = [...new Set(league.standings.map((one) => one.environment))];
    const tables = environments.map((name) =>
      standings(
        run,
        name,
        league.standings.filter((one) => one.environment === name),
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
    const weighed = weigh(run, now);
    tree.show(await get(`/api/runs/${run}/family`));
    await exploitability(run, league);
    await weighed;
  }

  return {
    show,
    changed: ({ runs }) => (runs?.includes(held.run) ? show(state()) : null),
    themed: () => show(state()),
    close: () => held.shown.forEach((handle) => handle.close()),
  };
}
