/** Episodes with one initial state: their first difference, and two of them side by side. */

import { button, el, grid, plain, word } from "./dom.js";
import { count, number, signed } from "./format.js";

function actionsOf(member, part) {
  return member.actions.map((action, index) => {
    const kind = part !== null && index >= part ? "after" : "dim";
    return el("span", { class: `act ${kind}` }, action === null ? "?" : word(action));
  });
}

/**
 * Return the table of siblings.
 * @param {Object} group the answer of /groups
 * @param {{episode: number, open: function, beside: function}} options
 */
export function siblings(group, { episode, open, beside }) {
  const { members, part } = group;
  const difference =
    part === null ? "all actions are equal" : `they differ from turn ${part + 1} on`;
  const rows = members.map((member) => {
    const isThis = member.episode === episode;
    const name = isThis
      ? el("b", {}, `${member.episode} (this)`)
      : button(String(member.episode), () => open(member.episode), { class: "plain" });
    return el(
      "tr",
      { class: isThis ? "played" : "" },
      el("th", { scope: "row" }, name),
      el(
        "td",
        { class: "number" },
        (member.returns ?? []).map((value) => signed(value)).join(" / "),
      ),
      el("td", { class: "number" }, number(member.illegal)),
      el("td", { class: "acts" }, actionsOf(member, part)),
      el("td", {}, isThis ? null : button("beside", () => beside(member.episode))),
    );
  });
  const titles = ["episode", "returns", "illegal", "actions", "compare"];
  const title = `${count(members.length, "episode")} with this initial state: ${difference}`;
  return el("section", { class: "siblings" }, el("h2", {}, title), grid(titles, rows));
}

function line(turn, roles) {
  if (!turn) return el("td", { class: "dim" }, "–");
  const role = roles[turn.seat] ?? turn.seat;
  if (turn.hidden) return el("td", { class: "dim" }, `${plain(role)}: hidden`);
  const advantage = turn.credit?.advantage;
  const hasAdvantage = advantage !== null && advantage !== undefined;
  const numbers = hasAdvantage ? ` advantage ${signed(advantage)}` : "";
  return el(
    "td",
    {},
    el("b", {}, word(role)),
    ": ",
    word(turn.reply ?? turn.action ?? ""),
    el("span", { class: "dim" }, numbers),
  );
}

/** Return two episodes side by side; the first turn that differs is marked. */
export function pair(left, right) {
  const roles = left.seats.map((seat) => seat.role);
  const length = Math.max(left.turns.length, right.turns.length);
  let hasDiffered = false;
  const rows = Array.from({ length }, (_, index) => {
    const [leftTurn, rightTurn] = [left.turns[index], right.turns[index]];
    const hasBoth = leftTurn && rightTurn;
    const isEqual =
      hasBoth && leftTurn.reply === rightTurn.reply && leftTurn.seat === rightTurn.seat;
    const first = !isEqual && !hasDiffered;
    hasDiffered ||= !isEqual;
    return el(
      "tr",
      { class: first ? "part" : hasDiffered ? "" : "dim" },
      el("th", { scope: "row" }, String(index + 1)),
      line(leftTurn, roles),
      line(rightTurn, roles),
    );
  });
  const returns = (answer) => answer.seats.map((seat) => signed(seat.return)).join(" / ");
  const title = (answer) => `episode ${answer.episode}, returns ${returns(answer)}`;
  const table = grid(["turn", title(left), title(right)], rows, { class: "pair" });
  return el("section", {}, el("h2", {}, "Side by side"), table);
}
