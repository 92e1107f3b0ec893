/** What members earn against each other: a table with one stop of the Tab key, and arrow keys. */

import { el, grid, plain } from "./dom.js";
import { count, number, probability, signed } from "./format.js";
import { diverging } from "./tokens.js";

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** Return a cell in a sentence. */
function sentence({ members, payoffs, counts, exact, rates, apart }, row, column) {
  const names = [row, column].map((at) => plain(members[at].name));
  const places = apart ? [" in the first side", " in the second"] : ["", ""];
  const [own, other] = names.map((name, at) => `${name}${places[at]}`);
  if (row === column && !apart) return `${own}: no member plays against itself.`;
  const known = exact[row][column];
  if (!counts[row][column] && !known) {
    return `${own} against ${other}: no episodes; the payoff counts as 0.`;
  }
  const mean = `mean payoff ${signed(payoffs[row][column])}`;
  const basis = known ? ", exact" : ` in ${count(counts[row][column], "episode")}`;
  const plays = `${own} against ${other}: ${mean}${basis}`;
  const rate = rates?.[row][column];
  if (!rate) return `${plays}.`;
  const [won, low, high] = rate.map(probability);
  if (known) return `${plays}; win rate ${won}.`;
  return `${plays}; win rate ${won}, 95 % interval ${low} to ${high}.`;
}

function cell(answer, scale, row, column, tell) {
  const said = sentence(answer, row, column);
  const played = answer.exact[row][column] ? "exact" : answer.counts[row][column];
  const own = { title: said, "aria-label": said, tabindex: row || column ? -1 : 0 };
  const on = { focus: () => tell(said), pointerenter: () => tell(said) };
  const given = { ...own, on, data: { row, column } };
  if (row === column && !answer.apart) return el("td", { ...given, class: "number dim" }, "–");
  if (!played) return el("td", { ...given, class: "number dim unplayed" }, "none");
  const payoff = answer.payoffs[row][column];
  const basis = played === "exact" ? played : number(played);
  const kind = `number ${diverging(payoff, scale)}`;
  return el("td", { ...given, class: kind }, signed(payoff), el("small", {}, basis));
}

/** Go to another cell by an arrow key. */
function walk(event) {
  const step = STEPS[event.key];
  const { row, column } = event.target.dataset;
  if (!step || row === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  const [down, right] = [Number(row) + step[0], Number(column) + step[1]];
  const to = event.currentTarget.querySelector(`[data-row="${down}"][data-column="${right}"]`);
  event.stopPropagation(); // the keys of the page have other uses for arrows
  event.preventDefault();
  if (!to) return;
  event.target.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

/** Return the payoffs of the row against the column, with a line for the cell that is looked at. */
export function heat(answer) {
  const { members, payoffs, apart } = answer;
  const said = el("p", { role: "status", class: "dim cell-said" });
  const tell = (text) => said.replaceChildren(text);
  const scale = Math.max(...payoffs.flat().map(Math.abs));
  const title = (one, at) =>
    el("th", { scope: "col", class: "number", title: plain(one.name) }, String(at + 1));
  const titles = ["row against column", ...members.map(title)];
  const rows = members.map((one, row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", title: plain(one.name) }, String(row + 1)),
      members.map((_, column) => cell(answer, scale, row, column, tell)),
    ),
  );
  const [first, second] = apart ? [" in the first side", " in the second"] : ["", ""];
  const who = `Mean payoff of the row${first} against the column${second}`;
  const what = `${who}; below it the number of episodes, or that it is exact.`;
  const attributes = { class: "heat meta-heat", on: { keydown: walk } };
  const scroll = grid(titles, rows, attributes);
  return el("div", { class: "meta-payoffs" }, el("p", { class: "dim" }, what), scroll, said);
}
