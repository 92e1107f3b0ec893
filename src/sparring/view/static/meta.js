/** The meta-strategy: how much each member of a league weighs, beside what they earn. */

import { el, grid, missing, plain, word } from "./dom.js";
import { count, probability } from "./format.js";
import { heat } from "./meta_heat.js";
import { change } from "./router.js";

function choice(label, options, chosen, set) {
  const made = options.map(([value, text]) =>
    el("option", { value, selected: value === chosen }, plain(text, 60)),
  );
  const select = el("select", { on: { change: (event) => set(event.target.value) } }, made);
  return el("label", {}, `${label} `, select);
}

function choices({ solver, source, own, solvers, labels, environments }, now) {
  const set = (name) => (value) => change({ [name]: value }, true);
  const ofRun = own ? [["", `${own.solver} (${own.source})`]] : [];
  const others = solvers.filter((name) => name !== own?.solver || name === now.solver);
  const all = [...ofRun, ...others.map((name) => [name, name])];
  const chosen = now.solver || own === null ? solver : "";
  const weighed = source === "matchmaker.solver" ? [] : [["", "all, as the run weighs them"]];
  const label = environments?.length === 1 ? environments[0] : "";
  return el(
    "div",
    { class: "tools" },
    choice("meta-solver", all, chosen, set("solver")),
    labels.length > 1
      ? choice("environment", [...weighed, ...labels.map((one) => [one, one])], label, set("of"))
      : null,
  );
}

function bar(weight) {
  const made = el("span", { class: "bar", vars: { "--share": String(weight ?? 0) } });
  return el("td", { class: "weight" }, made, weight === 0 ? "0" : probability(weight));
}

/** Return a bar for each member, or one for each of two sides. */
function weights(members, apart) {
  const tagged = members.some(({ tag }) => tag);
  const rows = members.map(({ name, tag, weight, sides }, at) => {
    const own = apart ? sides : [weight];
    return el(
      "tr",
      { class: own.some(Boolean) ? "" : "dim" },
      el("td", { class: "number dim" }, String(at + 1)),
      el("th", { scope: "row" }, word(name)),
      tagged ? el("td", {}, tag ? word(tag) : "–") : null,
      own.map(bar),
    );
  });
  const heads = apart ? ["In the first side", "In the second side"] : ["Weight"];
  const titles = ["No.", "Member", ...(tagged ? ["Tag"] : []), ...heads];
  return grid(titles, rows, { class: "weights" });
}

/** Return what the weights rest on, in a sentence; "" where all members have met. */
function basis({ pairs, empty }) {
  if (!pairs || !empty) return "";
  const rest = "their payoff counts as 0, and the weights rest on it";
  if (empty === pairs)
    return `No members have met each other: ${rest}. league.plays lets them play.`;
  return `${empty} of ${count(pairs, "pair")} of members ${
    empty === 1 ? "has" : "have"
  } not met: ${rest}. league.plays lets them play.`;
}

function said({ solver, source, step, apart }) {
  const whose = source ? `the run's own (${source})` : "chosen on this page";
  const weighed = `Weights by ${plain(solver)}, ${whose}, as of the checkpoint of step ${step}.`;
  return apart ? `${weighed} Each of two sides has its own (sides: apart).` : weighed;
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
    why || step === null ? missing("weights", plain(why, 400)) : el("p", {}, said(answer)),
    notes.map((note) => el("p", { class: "note warn" }, note)),
    el(
      "div",
      { class: "meta" },
      members.length ? weights(members, answer.apart) : null,
      payoffs ? heat(answer) : null,
    ),
  ].flat();
}
