/** Plays that share their start: where they part, and two of them side by side. */

import { button, el, plain, word } from "./dom.js";
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
  const said = part === null ? "all moves are equal" : `they differ from turn ${part + 1} on`;
  const rows = members.map((member) => {
    const here = member.episode === episode;
    const name = here
      ? el("b", {}, `${member.episode} (this)`)
      : button(String(member.episode), () => open(member.episode), { class: "plain" });
    return el(
      "tr",
      { class: here ? "played" : "" },
      el("th", { scope: "row" }, name),
      el(
        "td",
        { class: "number" },
        (member.returns ?? []).map((value) => signed(value)).join(" / "),
      ),
      el("td", { class: "number" }, number(member.illegal)),
      el("td", { class: "acts" }, actionsOf(member, part)),
      el("td", {}, here ? null : button("beside", () => beside(member.episode))),
    );
  });
  const titles = ["play", "returns", "illegal", "moves", ""].map((text) =>
    el("th", { scope: "col" }, text),
  );
  const table = el("table", {}, el("thead", {}, el("tr", {}, titles)), el("tbody", {}, rows));
  const head = el("h2", {}, `Siblings: ${count(members.length, "play")} of one deal, ${said}`);
  return el("section", { class: "siblings" }, head, el("div", { class: "scroll" }, table));
}

function line(turn, roles) {
  if (!turn) return el("td", { class: "dim" }, "–");
  const role = roles[turn.seat] ?? turn.seat;
  if (turn.hidden) return el("td", { class: "dim" }, `${plain(role)}: hidden`);
  const advantage = turn.credit?.advantage;
  const numbers = advantage === null || advantage === undefined ? "" : ` A ${signed(advantage)}`;
  return el(
    "td",
    {},
    el("b", {}, word(role)),
    ": ",
    word(turn.reply ?? turn.action ?? ""),
    el("span", { class: "dim" }, numbers),
  );
}

/** Return two plays side by side, turn by turn; the first turn that differs is marked. */
export function pair(left, right) {
  const roles = left.seats.map((seat) => seat.role);
  const length = Math.max(left.turns.length, right.turns.length);
  let parted = false;
  const rows = Array.from({ length }, (_, index) => {
    const [one, other] = [left.turns[index], right.turns[index]];
    const same = one && other && one.reply === other.reply && one.seat === other.seat;
    const first = !same && !parted;
    parted ||= !same;
    return el(
      "tr",
      { class: first ? "part" : parted ? "" : "dim" },
      el("th", { scope: "row" }, String(index + 1)),
      line(one, roles),
      line(other, roles),
    );
  });
  const returns = (answer) => answer.seats.map((seat) => signed(seat.return)).join(" / ");
  const title = (answer) =>
    el("th", { scope: "col" }, `play ${answer.episode}, returns ${returns(answer)}`);
  const head = el(
    "thead",
    {},
    el("tr", {}, el("th", { scope: "col" }, "turn"), title(left), title(right)),
  );
  const table = el("table", { class: "pair" }, head, el("tbody", {}, rows));
  return el("section", {}, el("h2", {}, "Side by side"), el("div", { class: "scroll" }, table));
}
