/** The table of plays that were found. */

import { button, el, word } from "./dom.js";
import { number, signed } from "./format.js";

/** What the columns mean whose names do not say it. */
export const MEANINGS = {
  advantage: "the largest advantage of a turn, with either sign: how much it is trained on",
  regret: "largest regret of a turn by the oracle: best value minus the value played",
  wrong: "a turn with a positive advantage that lost value by the oracle, or the reverse",
  logprob: "log-probability of the least likely reply, by the weights that sampled it",
};

const COLUMNS = [
  ["step", "step"],
  ["episode", "play"],
  ["game", "environment"],
  [null, "seats"],
  ["return", "returns"],
  ["turns", "turns"],
  ["tokens", "tokens"],
  ["illegal", "illegal"],
  ["advantage", "|advantage|"],
  ["regret", "value lost"],
  ["logprob", "log-prob. (lowest)"],
];

/** Return the cells of a play. */
export function cells(row, runs, link) {
  const seats = row.roles.map((role, seat) =>
    el("div", {}, word(role), el("span", { class: "dim" }, ": ", word(row.agents[seat]))),
  );
  const digits = (value, kind = "") => el("td", { class: `number ${kind}` }, number(value, 3));
  return [
    runs.length > 1
      ? el("td", {}, word(runs.find((run) => run.run === row.run)?.name ?? row.run))
      : null,
    el(
      "td",
      { class: "number" },
      row.people ? el("span", { class: "dim", title: "a human play" }, "people ") : null,
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
    digits(row.advantage),
    el(
      "td",
      {
        class: `number ${row.wrong ? "bad" : ""}`,
        title: row.wrong ? "credit and oracle disagree" : null,
      },
      row.wrong ? "≠ " : "",
      number(row.regret, 3),
    ),
    digits(row.logprob),
  ];
}

/** Return the head of the table; a click on a name sorts by it. */
export function header(values, runs, set) {
  const sorted = values.sort ?? "step";
  const order = values.order ?? "desc";
  const one = ([name, label]) => {
    if (!name || name === "game") return el("th", { scope: "col" }, label);
    const on = name === sorted;
    const turn = () => set({ sort: name, order: on && order === "desc" ? "asc" : "" });
    const aria = on ? (order === "asc" ? "ascending" : "descending") : null;
    return el(
      "th",
      { scope: "col", class: "number", "aria-sort": aria, title: MEANINGS[name] },
      button([label, on ? (order === "asc" ? " ▲" : " ▼") : ""], turn, { class: "plain" }),
    );
  };
  return el(
    "thead",
    {},
    el("tr", {}, runs.length > 1 ? el("th", { scope: "col" }, "run") : null, COLUMNS.map(one)),
  );
}
