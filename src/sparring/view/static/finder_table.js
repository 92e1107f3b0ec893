/** The table of the finder's episodes. */

import { button, el, word } from "./dom.js";
import { number, signed } from "./format.js";

/** Meanings of columns whose names do not explain themselves. */
export const MEANINGS = {
  advantage: "the largest advantage of a turn, of either sign: how much training changes a reply",
  regret: "largest loss of a turn by the oracle: best value minus the value played; 0 is best",
  wrong: "a turn with a positive advantage that lost value by the oracle, or the reverse",
  return: "sum of each seat's payoffs; high is good",
  illegal: "replies that are not a legal action; 0 is best",
  logprob: "log-probability of the least likely reply, by the weights that sampled it",
};

const COLUMNS = [
  ["step", "step"],
  ["episode", "episode"],
  ["game", "environment"],
  [null, "seats"],
  ["return", "returns"],
  ["turns", "turns"],
  ["tokens", "tokens"],
  ["illegal", "illegal"],
  ["advantage", "largest |advantage|"],
  ["regret", "largest loss"],
  ["logprob", "least log-probability"],
];

const EMPTY = ["advantage", "regret", "logprob"]; // columns that not every run records

/** Return the columns of the table, without optional columns that have no value in any row. */
export function columnsOf(rows) {
  const hasValue = (name) => rows.some((row) => row[name] !== null && row[name] !== undefined);
  return COLUMNS.filter(([name]) => !EMPTY.includes(name) || hasValue(name));
}

/** Return the cells of an episode. */
export function cells(row, columns, runs, link) {
  const has = (column) => columns.some(([name]) => name === column);
  const seats = row.roles.map((role, seat) =>
    el("div", {}, word(role), el("span", { class: "dim" }, ": ", word(row.agents[seat]))),
  );
  const digits = (value, kind = "") => el("td", { class: `number ${kind}` }, number(value, 3));
  const attributes = row.wrong
    ? { class: "number bad", title: "advantage and oracle disagree" }
    : { class: "number" };
  return [
    runs.length > 1
      ? el("td", {}, word(runs.find((run) => run.run === row.run)?.name ?? row.run))
      : null,
    el(
      "td",
      { class: "number" },
      row.people ? el("span", { class: "dim", title: "a person played" }, "people ") : null,
      number(row.step, 3),
    ),
    el("th", { scope: "row", class: "number" }, el("a", { href: link }, String(row.episode))),
    el("td", {}, word(row.game)),
    el("td", { class: "seats-cell" }, seats),
    el(
      "td",
      { class: "number" },
      row.returns.map((value) => el("div", {}, signed(value))),
    ),
    digits(row.turns),
    digits(row.tokens),
    digits(row.illegal, row.illegal ? "bad" : ""),
    has("advantage") && digits(row.advantage),
    has("regret") && el("td", attributes, row.wrong ? "≠ " : "", number(row.regret, 3)),
    has("logprob") && digits(row.logprob),
  ].filter(Boolean);
}

/** Return the head of the table; a click on a name sorts by it. */
export function header(values, columns, runs, set) {
  const sorted = values.sort ?? "step";
  const order = values.order ?? "desc";
  const headCell = ([name, label]) => {
    if (!name || name === "game") return el("th", { scope: "col" }, label);
    const isSorted = name === sorted;
    const turn = () => set({ sort: name, order: isSorted && order === "desc" ? "asc" : "" });
    const aria = isSorted ? (order === "asc" ? "ascending" : "descending") : null;
    return el(
      "th",
      { scope: "col", class: "number", "aria-sort": aria, title: MEANINGS[name] },
      button([label, isSorted ? (order === "asc" ? " ▲" : " ▼") : ""], turn, { class: "plain" }),
    );
  };
  return el(
    "thead",
    {},
    el("tr", {}, runs.length > 1 ? el("th", { scope: "col" }, "run") : null, columns.map(headCell)),
  );
}
