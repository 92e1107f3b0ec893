/** The members' payoffs against each other: a table with one Tab stop, and arrow keys. */

import { el, grid, plain } from "./dom.js";
import { count, number, probability, signed } from "./format.js";
import { diverging } from "./tokens.js";

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

/** Return a sentence that describes a cell. */
function sentence({ members, payoffs, counts, exact, rates, apart }, row, column) {
  const names = [row, column].map((at) => plain(members[at].name));
  const places = apart ? [" in the first side", " in the second"] : ["", ""];
  const [first, other] = names.map((name, at) => `${name}${places[at]}`);
  if (row === column && !apart) return `${first}: no member plays against itself.`;
  const isExact = exact[row][column];
  if (!counts[row][column] && !isExact) {
    return `${first} against ${other}: no episodes; the payoff counts as 0.`;
  }
  const mean = `mean payoff ${signed(payoffs[row][column])}`;
  const basis = isExact ? ", exact" : ` in ${count(counts[row][column], "episode")}`;
  const plays = `${first} against ${other}: ${mean}${basis}`;
  const rate = rates?.[row][column];
  if (!rate) return `${plays}.`;
  const [winRate, low, high] = rate.map(probability);
  if (isExact) return `${plays}; win rate ${winRate}.`;
  return `${plays}; win rate ${winRate}, 95 % interval ${low} to ${high}.`;
}

function cell(answer, scale, row, column, tell) {
  const text = sentence(answer, row, column);
  const episodes = answer.exact[row][column] ? "exact" : answer.counts[row][column];
  const attributes = { title: text, "aria-label": text, tabindex: row || column ? -1 : 0 };
  const on = { focus: () => tell(text), pointerenter: () => tell(text) };
  const cellAttributes = { ...attributes, on, data: { row, column } };
  if (row === column && !answer.apart)
    return el("td", { ...cellAttributes, class: "number dim" }, "–");
  if (!episodes) return el("td", { ...cellAttributes, class: "number dim unplayed" }, "none");
  const payoff = answer.payoffs[row][column];
  const basis = episodes === "exact" ? episodes : number(episodes);
  const kind = `number ${diverging(payoff, scale)}`;
  return el("td", { ...cellAttributes, class: kind }, signed(payoff), el("small", {}, basis));
}

/** Go to another cell by an arrow key. */
function walk(event) {
  const step = STEPS[event.key];
  const { row, column } = event.target.dataset;
  if (!step || row === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  const [down, right] = [Number(row) + step[0], Number(column) + step[1]];
  const target = event.currentTarget.querySelector(`[data-row="${down}"][data-column="${right}"]`);
  event.stopPropagation(); // on the page, arrow keys do other things
  event.preventDefault();
  if (!target) return;
  event.target.tabIndex = -1;
  target.tabIndex = 0;
  target.focus();
}

/** Return the payoffs of rows against columns, with a line on the selected cell. */
export function heat(answer) {
  const { members, payoffs, apart } = answer;
  const description = el("p", { role: "status", class: "dim cell-said" });
  const tell = (text) => description.replaceChildren(text);
  const scale = Math.max(...payoffs.flat().map(Math.abs));
  const title = (member, at) =>
    el("th", { scope: "col", class: "number", title: plain(member.name) }, String(at + 1));
  const titles = ["row against column", ...members.map(title)];
  const rows = members.map((member, row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", title: plain(member.name) }, String(row + 1)),
      members.map((_, column) => cell(answer, scale, row, column, tell)),
    ),
  );
  const [first, second] = apart ? [" in the first side", " in the second"] : ["", ""];
  const who = `Mean payoff of the row${first} against the column${second}`;
  const what = `${who}; below it the number of episodes, or that it is exact.`;
  const attributes = { class: "heat meta-heat", on: { keydown: walk } };
  const scroll = grid(titles, rows, attributes);
  return el("div", { class: "meta-payoffs" }, el("p", { class: "dim" }, what), scroll, description);
}
