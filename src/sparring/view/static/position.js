/** The panel beside the seats: board, legal actions, the oracle's values, and credit. */

import { el, missing, passage, plain, word } from "./dom.js";
import { number, probability, signed } from "./format.js";

/** Return the bar of a share between 0 and 1. */
function bar(share, kind) {
  return el("span", {
    class: `bar ${kind}`,
    vars: { "--share": String(Math.max(0, Math.min(1, share))) },
  });
}

function image({ address, said }) {
  return el("img", { class: "board", src: address, alt: plain(said, 400) });
}

/**
 * Return the picture of the board, or what the seat could see of it in words.
 * @param {Object} turn the turn that is looked at
 * @param {?Array} pictures of the position before the turn and, if it is the last turn, at the end;
 *   null for a picture that does not exist; null instead of the array while they are drawn
 */
export function board(turn, pictures) {
  if (!pictures) return el("p", { class: "board-coming dim" }, "drawing …");
  const [before, end] = pictures;
  if (before?.address && end?.address)
    return el("div", {}, image(before), el("p", { class: "dim" }, "At the end:"), image(end));
  if (before?.address) return image(before);
  if (!turn || turn.hidden) return missing("board", "another seat's turn");
  if (!turn.view) return missing("board", before?.why ?? undefined);
  return el("pre", { class: "board-text" }, passage(turn.view, "mono"));
}

function moves(turn) {
  const names = [...new Set([...(turn.legal ?? []), ...(turn.oracle?.actions ?? [])])];
  return names.map((name) => {
    const at = turn.oracle ? turn.oracle.actions.indexOf(name) : -1;
    const chance = turn.policy?.actions ? turn.policy.actions.indexOf(name) : -1;
    return {
      name,
      value: at < 0 ? null : turn.oracle.values[at],
      best: turn.oracle?.best.includes(name) ?? false,
      chance: chance < 0 ? null : turn.policy.probabilities[chance],
      played: name === turn.action,
    };
  });
}

const POLICY = "how likely the policy of this checkpoint replies with the action";
const VALUE = "by the oracle: the return that this seat can expect after the action; high is good";
const LOSS = "by the oracle: the best value minus this one; 0 is best";

function moveRow({ name, value, best, chance, played }, highest, has) {
  const loss = value === null ? null : highest - value;
  const marks = [
    best ? el("span", { class: "best", title: "best by the oracle" }, "★") : null,
  ];
  return el(
    "tr",
    { class: played ? "played" : "" },
    el("th", { scope: "row" }, played ? "→ " : "", word(name), ...marks),
    has.policy ? el("td", {}, bar(chance ?? 0, "chance"), probability(chance)) : null,
    has.oracle ? el("td", { class: "number" }, number(value, 3)) : null,
    has.oracle
      ? el(
          "td",
          { class: `number ${loss > 1e-9 ? "lost" : ""}` },
          loss === null ? "–" : number(loss, 3),
        )
      : null,
  );
}

/** Return the table of legal moves with the policy's probabilities and the oracle's values. */
export function legalMoves(turn) {
  const title = el("h3", {}, "Legal actions");
  if (!turn.legal) return el("section", {}, title, missing("legal actions", "any text is allowed"));
  const all = moves(turn);
  if (!all.length) return el("section", {}, title, missing("legal actions"));
  const has = { policy: Boolean(turn.policy?.actions), oracle: Boolean(turn.oracle) };
  const highest = Math.max(...all.map(({ value }) => value ?? -Infinity));
  const column = (text, kind = "", title = null) =>
    el("th", { scope: "col", class: kind, title }, text);
  const titles = [
    column("action"),
    has.policy ? column(`policy, step ${turn.policy.step}`, "", POLICY) : null,
    has.oracle ? [column("value", "number", VALUE), column("loss", "number", LOSS)] : null,
  ];
  const rows = all.map((move) => moveRow(move, highest, has));
  const head = el("thead", {}, el("tr", {}, titles));
  const table = el("table", { class: "moves" }, head, el("tbody", {}, rows));
  const notes = [];
  if (turn.policy?.why) notes.push(`policy: ${plain(turn.policy.why, 400)}`);
  if (turn.policy === null) notes.push("policy: loading its checkpoint …");
  if (has.policy)
    notes.push(
      `policy: ${plain(turn.policy.player)}, ${plain(turn.policy.weights)} weights of the ` +
        `checkpoint of step ${turn.policy.step}; other replies ${probability(turn.policy.other)}`,
      "The p of a token is from the weights that sampled it, which may differ.",
    );
  if (!turn.oracle) notes.push("oracle: no verdict recorded");
  else if (turn.oracle.certainty < 1)
    notes.push(`oracle: certainty ${number(turn.oracle.certainty, 3)}`);
  if (turn.oracle?.bound) notes.push(`values within ${number(turn.oracle.bound, 2)}`);
  const played = turn.action !== null && !turn.legal.includes(turn.action) ? turn.reply : null;
  if (played !== null && turn.event !== "ok") notes.push("the reply was not one of these");
  return el(
    "section",
    { class: "legal-moves" },
    title,
    table,
    notes.map((note) => el("p", { class: "dim" }, note)),
  );
}

const MEANINGS = {
  return: "sum of this seat's payoffs; high is good",
  reward: "a part of what this turn is trained on; high is good",
  baseline: "what the credit method subtracts",
  advantage: "above 0: training makes the reply more likely; below 0: less likely",
  value: "what the critic expects before the turn",
  "value target": "what the critic learns here",
  playout: "mean return of episodes continued from here; high is good",
  score: "of this candidate; high is good",
  weights: "that sampled the reply: how often they had been updated",
};

/** Return the credit of a turn: return, reward, baseline, advantage. */
export function credits(turn, seat) {
  const { credit, playout, score } = turn;
  const format = (value) => (value === null || value === undefined ? null : number(value, 3));
  const rewards = Object.entries(turn.rewards ?? {});
  const all = [
    ["return", signed(seat?.return)],
    ...rewards.map(([name, value]) => [`reward: ${name}`, signed(value)]),
    ["baseline", credit && number(credit.baseline, 3)],
    ["advantage", credit && signed(credit.advantage)],
    ["value", format(credit?.value)],
    ["value target", format(credit?.value_target)],
    ["playout", format(playout)],
    ["score", format(score)],
    ["weights", `${turn.weights_version} updates`],
  ];
  const facts = all.filter(([, value]) => value !== null && value !== undefined);
  const pair = ([name, value]) => [
    el("dt", { title: MEANINGS[name.split(":")[0]] }, name),
    el("dd", {}, value),
  ];
  const list = el("dl", {}, facts.map(pair).flat());
  return el("section", {}, el("h3", {}, "Credit"), list, credit ? null : missing("credit"));
}
