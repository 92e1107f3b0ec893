/** The screen of one episode: seats in columns, panel, timeline; sends no requests. */

import { seatColumns } from "./cards.js";
import { button, el, plain, withKey, word } from "./dom.js";
import { signed } from "./format.js";
import { board, credits, legalMoves } from "./position.js";
import { timeline } from "./timeline.js";
import { COLOURINGS, legend, numbers } from "./tokens.js";

/** Return a button for each illegal reply, which goes to its turn, and other marks. */
function faults(answer, choose) {
  const faultTurns = answer.turns.filter(
    (turn) => turn.event === "illegal" || turn.event === "unparsable",
  );
  const marks = faultTurns.slice(0, 6).map((turn) => {
    const fault = turn.event === "illegal" ? "illegal" : "unparsable";
    const label = `× ${fault} at ${turn.index + 1}`;
    return button(label, () => choose(turn.index), { class: "tag bad" });
  });
  if (answer.forfeited_by !== null && answer.forfeited_by !== undefined) {
    const role = answer.seats[answer.forfeited_by]?.role ?? `seat ${answer.forfeited_by}`;
    marks.push(el("span", { class: "tag bad" }, "forfeited by ", word(role)));
  }
  if (answer.cut) marks.push(el("span", { class: "tag" }, "truncated"));
  return marks;
}

function seatButtons(answer, view) {
  const { seat: seatShown } = answer;
  const all = button("all seats", () => view.seat(null), {
    "aria-pressed": String(seatShown === null),
    title: "everything that happened (key O)",
  });
  const seatButton = (seat) =>
    button(
      [word(seat.role), ": ", word(seat.agent), " ", el("b", {}, signed(seat.return))],
      () => view.seat(seat.seat),
      {
        "aria-pressed": String(seatShown === seat.seat),
        title: `only what seat ${seat.seat} sees (key ${seat.seat})`,
      },
    );
  return el(
    "div",
    { class: "seat-buttons", role: "group", "aria-label": "whose view" },
    all,
    answer.seats.map(seatButton),
  );
}

function heading(answer, view) {
  const seats = view.seat
    ? seatButtons(answer, view)
    : el(
        "p",
        {},
        answer.seats.map((seat) => [
          word(seat.role),
          ": ",
          word(seat.agent),
          " ",
          el("b", {}, signed(seat.return)),
          "   ",
        ]),
      );
  const title = el(
    "h1",
    {},
    word(answer.game),
    el("span", { class: "dim" }, ` episode ${answer.episode} · step ${answer.step} · `),
    word(answer.name, { class: "dim" }),
  );
  const grow = el("span", { class: "grow" });
  const marks = faults(answer, view.choose);
  return el("header", { class: "play-head" }, title, seats, marks, grow, view.tools);
}

function colours(view) {
  const options = COLOURINGS.map((name) =>
    button(name, () => view.colour(name), { "aria-pressed": String(name === view.colouring) }),
  );
  return el(
    "div",
    { class: "colours", role: "group", "aria-label": "colour of tokens" },
    "colour: ",
    options,
  );
}

function notes(answer) {
  const lines = [...(answer.notes ?? [])];
  if (answer.missing?.length) lines.push(`not recorded: ${answer.missing.join(", ")}`);
  if (!answer.decoded) lines.push("there is no tokenizer on this machine: tokens are shown as ids");
  if (answer.seat !== null) {
    const role = answer.seats.find((seat) => seat.seat === answer.seat)?.role;
    lines.push(
      `private view of seat ${answer.seat} (${plain(role)}): ` +
        "prompts and replies of other seats are left out",
    );
  }
  return lines.map((line) => el("p", { class: "note" }, word(line)));
}

function steps(answer, view) {
  const last = answer.turns.length - 1;
  const { turn, choose } = view;
  const stepButton = (label, key, to, disabled) =>
    button(withKey(label, key), () => choose(to), { disabled });
  return el(
    "div",
    { class: "steps", role: "group", "aria-label": "go to a turn" },
    stepButton("First", "Home", 0, turn <= 0),
    stepButton("Previous turn", "←", turn - 1, turn <= 0),
    el("span", { role: "status" }, `turn ${turn + 1} of ${last + 1}`),
    stepButton("Next turn", "→", turn + 1, turn >= last),
    stepButton("Last", "End", last, turn >= last),
  );
}

function panel(answer, view) {
  const turn = answer.turns[view.turn];
  const seat = answer.seats.find((other) => other.seat === turn?.seat);
  const box = el(
    "aside",
    { class: "panel", "aria-label": "position" },
    el("div", { class: "board-box" }, board(turn, view.pictures)),
  );
  if (turn && !turn.hidden) {
    const whose = el(
      "p",
      { class: "whose" },
      `turn ${turn.index + 1}: `,
      word(seat?.role ?? ""),
      " to move",
    );
    box.append(whose, legalMoves(turn), credits(turn, seat));
  }
  return box;
}

/**
 * Return the whole screen.
 * @param {Object} answer the episode, as the server gives it
 * @param {{turn: number, colouring: string, compared: number, pictures: ?Array, tools: Element,
 *   choose: function,
 *   colour: function, seat: function, compare: function}} view values, and functions to set them
 */
export function stage(answer, view) {
  if (!answer.turns.length) {
    return el(
      "div",
      { class: "play" },
      heading(answer, view),
      el("p", { class: "missing" }, "This episode has no turns."),
    );
  }
  const scale = answer.scale ?? {};
  const tokenText = el(
    "p",
    { class: "token-told", role: "status" },
    el("span", { class: "dim" }, "numbers of a token: hover, or Tab to it"),
  );
  const tell = (token) =>
    tokenText.replaceChildren(
      word(token.text || `#${token.id}`, { class: "mono" }),
      `  ${numbers(token)}`,
    );
  const options = {
    ...view,
    scale,
    tell,
    decoded: answer.decoded,
  };
  const seats = seatColumns(answer, options);
  const head = el(
    "div",
    { class: "main-head" },
    colours(view),
    legend(view.colouring, scale),
    tokenText,
  );
  const line = timeline(answer, { current: view.turn, choose: view.choose, scale });
  return el(
    "div",
    { class: "play" },
    heading(answer, view),
    notes(answer),
    el(
      "div",
      { class: "play-grid" },
      panel(answer, view),
      el("div", { class: "play-main" }, head, el("div", { class: "seats-box" }, seats)),
    ),
    el("footer", { class: "play-time" }, steps(answer, view), line),
  );
}
