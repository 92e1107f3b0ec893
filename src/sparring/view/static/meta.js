/** The meta-strategy: the weight of each member of a league, and the members' payoffs. */

import { el, grid, missing, plain, word } from "./dom.js";
import { count, probability } from "./format.js";
import { heat } from "./meta_heat.js";
import { change } from "./router.js";

function choice(label, options, selected, set) {
  const optionNodes = options.map(([value, text]) =>
    el("option", { value, selected: value === selected }, plain(text, 60)),
  );
  const select = el("select", { on: { change: (event) => set(event.target.value) } }, optionNodes);
  return el("label", {}, `${label} `, select);
}

function choices({ solver, source, own: runSolver, solvers, labels, environments }, now) {
  const set = (name) => (value) => change({ [name]: value }, true);
  const ofRun = runSolver ? [["", `${runSolver.solver} (${runSolver.source})`]] : [];
  const others = solvers.filter((name) => name !== runSolver?.solver || name === now.solver);
  const all = [...ofRun, ...others.map((name) => [name, name])];
  const chosen = now.solver || runSolver === null ? solver : "";
  const named = labels.map((name) => [name, name]);
  const allOption = source === "matchmaker.solver" ? [] : [["", "all, as the run weighs them"]];
  const label = environments?.length === 1 ? environments[0] : "";
  return el(
    "div",
    { class: "tools" },
    choice("meta-solver", all, chosen, set("solver")),
    labels.length > 1
      ? choice("environment", [...allOption, ...named], label, set("of"))
      : null,
  );
}

function bar(weight) {
  const barNode = el("span", { class: "bar", vars: { "--share": String(weight ?? 0) } });
  return el("td", { class: "weight" }, barNode, weight === 0 ? "0" : probability(weight));
}

/** Return a bar for each member, or one for each of two sides. */
function weights(members, apart) {
  const hasTags = members.some(({ tag }) => tag);
  const rows = members.map(({ name, tag, weight, sides }, index) => {
    const memberWeights = apart ? sides : [weight];
    return el(
      "tr",
      { class: memberWeights.some(Boolean) ? "" : "dim" },
      el("td", { class: "number dim" }, String(index + 1)),
      el("th", { scope: "row" }, word(name)),
      hasTags ? el("td", {}, tag ? word(tag) : "–") : null,
      memberWeights.map(bar),
    );
  });
  const heads = apart ? ["In the first side", "In the second side"] : ["Weight"];
  const titles = ["No.", "Member", ...(hasTags ? ["Tag"] : []), ...heads];
  return grid(titles, rows, { class: "weights" });
}

/** Return a sentence about the pairs without episodes; "" if every pair has some. */
function basis({ pairs, empty }) {
  if (!pairs || !empty) return "";
  const reason = "their payoff counts as 0, and the weights rest on it";
  if (empty === pairs)
    return `No members have met each other: ${reason}. league.plays lets them play.`;
  return `${empty} of ${count(pairs, "pair")} of members ${
    empty === 1 ? "has" : "have"
  } not met: ${reason}. league.plays lets them play.`;
}

function describe({ solver, source, step, apart }) {
  const origin = source ? `the run's own (${source})` : "chosen on this page";
  const text = `Weights by ${plain(solver)}, ${origin}, as of the checkpoint of step ${step}.`;
  return apart ? `${text} Each of two sides has its own (sides: apart).` : text;
}

/**
 * Return the section of the meta-strategy.
 * @param {Object} answer of /meta
 * @param {Object} now the state of the page
 */
export function metaStrategy(answer, now) {
  const { members, payoffs, why, step } = answer;
  const notes = [why ? null : basis(answer)].filter(Boolean);
  return [
    el("h2", {}, "Meta-strategy"),
    choices(answer, now),
    why || step === null ? missing("weights", plain(why, 400)) : el("p", {}, describe(answer)),
    notes.map((note) => el("p", { class: "note warn" }, note)),
    el(
      "div",
      { class: "meta" },
      members.length ? weights(members, answer.apart) : null,
      payoffs ? heat(answer) : null,
    ),
  ].flat();
}
