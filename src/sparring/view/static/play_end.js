/** The end of an episode: hidden facts, the regret of each move, and the next episode. */

import { button, el, grid, passage, plain, withKey, word } from "./dom.js";
import { count, number } from "./format.js";
import { seatChoices } from "./play_setup.js";

function regretCell({ regret }) {
  if (regret === null || regret === undefined) return el("td", { class: "number" }, "–");
  if (regret <= 1e-9) return el("td", { class: "number" }, "0");
  return el("td", { class: "number lost" }, number(regret, 3));
}

function row(turn, state, place, has) {
  const wrong = turn.event !== "ok" && turn.event !== "memory";
  const mark = wrong
    ? el("span", { class: "tag bad" }, turn.event === "illegal" ? "illegal" : "unparsable")
    : null;
  const replacement = wrong && turn.action ? [" played for it: ", word(turn.action)] : null;
  const best = turn.oracle ? turn.oracle.best.map((action) => word(action, { class: "one" })) : "–";
  const cells = [
    el("td", { class: "number" }, String(place + 1)),
    el("th", { scope: "row" }, word(state.roles[turn.seat]), turn.yours ? " (you)" : ""),
    el("td", {}, word(turn.reply, { class: "said" }), " ", mark, replacement),
    has.oracle ? el("td", {}, best) : null,
    has.oracle ? regretCell(turn) : null,
    has.thought ? el("td", { class: "dim" }, word(turn.thought)) : null,
    el(
      "td",
      { class: "told-cell" },
      el("details", {}, el("summary", {}, "prompt"), passage(turn.told)),
    ),
  ];
  return el("tr", { class: turn.yours ? "played" : "" }, cells);
}

function moves(state) {
  const { turns } = state.end;
  const has = {
    oracle: turns.some(({ oracle }) => oracle),
    thought: turns.some(({ thought }) => thought),
  };
  const titles = [
    "turn",
    "player",
    "reply",
    has.oracle ? "oracle's best" : null,
    has.oracle ? "regret" : null,
    has.thought ? "policy" : null,
    "prompt",
  ];
  const columns = titles.filter((title) => title !== null);
  const rows = turns.map((turn, place) => row(turn, state, place, has));
  return grid(columns, rows, { class: "moves show-down" });
}

function judgementNote({ judgement, why }) {
  if (why) return el("p", { class: "note" }, word(why));
  if (!judgement) return el("p", { class: "note", role: "status" }, "The oracle is judging …");
  const { best, judged: numJudged, regret, oracle } = judgement;
  const text =
    `Oracle ${plain(oracle)}: ${best} best of your ${count(numJudged, "move")}; ` +
    `you gave away ${number(regret, 3)} in all.`;
  return el("p", { class: "judged" }, text);
}

/** Return the last position with nothing hidden. */
function lastPosition(state, board) {
  const picture = board.of(state);
  const text = state.end.ending;
  if (!picture && !text) return null;
  return el(
    "div",
    { class: "play-now last" },
    picture ? el("div", { class: "board-box" }, picture) : null,
    text ? el("div", { class: "told-now" }, passage(text, "mono")) : null,
  );
}

function storedNote({ stored, run }) {
  if (!stored) return el("p", { class: "dim" }, "Not stored: episodes without a run are not kept.");
  if (stored.why) return el("p", { class: "note bad" }, "Not stored: ", word(stored.why));
  const command = `sparring show RUN --played --step ${stored.number}`;
  return el("p", { class: "dim" }, `Stored in ${plain(run)}: `, el("code", {}, command));
}

function nextPlay(state, { options, chosen, next }) {
  const box = el("div", { class: "choices" }, options ? seatChoices(options, chosen) : null);
  const value = (name, otherwise) =>
    box.querySelector(`select[name=${name}]`)?.value ?? otherwise;
  const begin = button(
    withKey("Next episode", "N"),
    () => next(Number(value("seat", state.seat)), value("against", state.against)),
    { class: "next" },
  );
  box.append(begin);
  return box;
}

/**
 * Return the end of an episode.
 * @param {Object} state as the server gives it, with an end
 * @param {{board: Board, options: Object, chosen: Object, next: function}} options the picture,
 *   the choices of the next episode, the current choice, and the function that begins it
 */
export function showDown(state, options) {
  const { end } = state;
  return el(
    "section",
    { class: "ending", "aria-label": "the end" },
    el("h2", {}, word(end.verdict)),
    end.drawn ? el("p", { class: "note" }, word(end.drawn), ".") : null,
    end.cut
      ? el("p", { class: "note" }, "It was truncated: a limit of turns or of the context ended it.")
      : null,
    judgementNote(end),
    lastPosition(state, options.board),
    moves(state),
    nextPlay(state, options),
    storedNote(state),
    el("p", { class: "dim" }, `The deal is --seed ${end.seed}.`),
  );
}
