/** A turn as a card, and the columns of the seats, aligned by the time of their turns. */

import { button, el, passage, plain, word } from "./dom.js";
import { number, signed } from "./format.js";
import { diverging, tokenRow } from "./tokens.js";

const OTHERS = "another seat's turn: the turns of this seat show what it learnt";
const BACK = 40; // largest number of turns that are drawn, up to the current one

function segmentText(segment, decoded) {
  const head = el("span", { class: "dim" }, `${segment.kind}, ${segment.length} tokens `);
  const text =
    decoded && segment.text !== null
      ? passage(segment.text, "mono")
      : el("span", { class: "dim" }, "no tokenizer here");
  return el("div", { class: `segment ${segment.kind}` }, head, text);
}

/** Return a box that draws the exact prompt and reply of a turn when it is opened. */
function exact(turn, { decoded, conversation }) {
  const all = conversation(turn).flatMap((other) => other.segments);
  const total = all.reduce((sum, segment) => sum + segment.length, 0);
  const box = el(
    "details",
    { class: "exact" },
    el("summary", {}, `exact prompt and reply, ${total} tokens`),
  );
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1)
      box.append(...all.map((segment) => segmentText(segment, decoded)));
  });
  return box;
}

function facts(turn) {
  const parts = [];
  const credit = turn.credit;
  if (credit && credit.advantage !== null)
    parts.push(el("b", {}, `advantage ${signed(credit.advantage)}`));
  if (turn.oracle?.regret) parts.push(`lost ${number(turn.oracle.regret, 3)}`);
  const sampled = turn.segments.filter((segment) => segment.kind === "sampled");
  const tokens = sampled.reduce((sum, segment) => sum + segment.length, 0);
  if (tokens) parts.push(`${tokens} token${tokens === 1 ? "" : "s"}`);
  if (turn.event === "unsent") parts.push(el("span", { class: "warn" }, "not sent: too long"));
  else if (turn.truncated)
    parts.push(el("span", { class: "warn" }, "truncated at the limit of tokens"));
  if (credit && !credit.selected) parts.push(el("span", { class: "dim" }, "not trained on"));
  if (credit?.replayed) parts.push("replayed");
  const spaced = parts.flatMap((part, index) => (index ? [" · ", part] : [part]));
  return el("span", { class: "facts" }, spaced);
}

/** Return the tokens of a reply, and its text if the tokens do not contain this text. */
function reply(turn, options) {
  const runs = turn.segments.filter((segment) => segment.kind === "sampled" && segment.tokens);
  const text = turn.reply ?? "";
  if (!runs.length || options.colouring === "none") return passage(text, "reply");
  const rows = runs.map((segment) => tokenRow(segment.tokens, options));
  const spelling = runs.flatMap((segment) => segment.tokens.map((token) => token.text)).join("");
  if (options.decoded && spelling.includes(text.trim())) return el("div", { class: "reply" }, rows);
  return el("div", { class: "reply" }, passage(text), el("div", { class: "ids" }, rows));
}

function candidates(turn, options) {
  if (!turn.candidates?.length) return null;
  const item = (candidate) => {
    const score = candidate.score === null ? "" : `score ${number(candidate.score, 3)} · `;
    return el(
      "li",
      {},
      el("span", { class: "dim" }, score),
      reply(candidate, options),
      facts(candidate),
    );
  };
  const total = turn.candidates.length;
  const title = `${total} other repl${total === 1 ? "y" : "ies"} to this prompt`;
  return el(
    "details",
    { class: "candidates", open: true },
    el("summary", {}, title),
    el("ol", {}, turn.candidates.map(item)),
  );
}

const EVENTS = { illegal: "illegal", unparsable: "unparsable", memory: "memory" };

function promptOf(turn, open) {
  if (!turn.told) return el("p", { class: "missing" }, "prompt: nothing new, or not recorded");
  const text = passage(turn.told, "told");
  const lines = turn.told.split("\n").length;
  if (open || (lines <= 3 && turn.told.length < 240)) return text;
  text.classList.add("folded");
  const unfold = button(
    `all ${lines} lines`,
    () => {
      text.classList.toggle("folded");
    },
    { class: "more" },
  );
  return el("div", {}, text, unfold);
}

function titleOf(turn, { current, role, choose }) {
  const event = EVENTS[turn.event];
  const tag = (text, kind = "") => el("span", { class: `tag ${kind}` }, text);
  const hasAction = turn.action !== null && turn.action !== undefined;
  return el(
    "h3",
    {},
    button(`turn ${turn.index + 1}`, () => choose(turn.index), {
      class: "plain",
      "aria-current": current ? "step" : null,
    }),
    word(role, { class: "role" }),
    hasAction ? el("span", { class: "move" }, "→ ", word(turn.action)) : null,
    event ? tag(event, "bad") : null,
    turn.attempt ? tag(`attempt ${turn.attempt + 1}`) : null,
    turn.conversation ? tag(`conversation ${turn.conversation + 1}`) : null,
    turn.hidden ? el("span", { class: "missing" }, OTHERS) : facts(turn),
  );
}

/**
 * Return one turn.
 * @param {Object} turn of the answer
 * @param {{current: boolean, decoded: boolean, choose: function, role: string}} options
 *   and the options of tokens.js
 */
export function card(turn, options) {
  const tint = diverging(turn.credit?.advantage, options.scale.advantage);
  const kinds = [options.current ? "current" : "", EVENTS[turn.event] ? "off" : ""].join(" ");
  const kind = `turn edge-${tint || "none"} ${kinds}`;
  const node = el("article", { class: kind, "data-turn": turn.index }, titleOf(turn, options));
  if (turn.hidden) return node;
  node.append(promptOf(turn, false), reply(turn, options));
  const others = candidates(turn, options);
  if (others) node.append(others);
  if (options.current) node.append(exact(turn, options));
  return node;
}

/** Return the seats that get a column: at most three, including the seat that acts. */
function columnsOf(seats, turn, compared) {
  if (seats.length <= 3) return seats.map((seat) => seat.seat);
  const columns = [turn?.seat ?? 0, compared ?? (turn?.seat === 0 ? 1 : 0)];
  for (const { seat } of seats)
    if (columns.length < 3 && !columns.includes(seat)) columns.push(seat);
  return [...new Set(columns)].slice(0, 3).sort((left, right) => left - right);
}

function columnHead(seat, column, compare) {
  const kind = seat.kind && seat.kind !== seat.agent ? ` (${seat.kind})` : "";
  return el(
    "header",
    { class: "seat-head", vars: { "--col": column } },
    el("b", {}, word(seat.role)),
    el(
      "span",
      { class: "dim" },
      " seat ",
      String(seat.seat),
      " · ",
      word(seat.agent),
      kind,
      seat.trained ? " · trained" : "",
    ),
    el("span", { class: "return" }, " return ", el("b", {}, signed(seat.return))),
    compare,
  );
}

/** Return [turn, number of its row in the grid] for each turn; turns of one moment share a row. */
function rows(turns) {
  let row = 1;
  let moment = null;
  let seatsInRow = new Set();
  return turns.map((turn) => {
    if (turn.moment !== moment || seatsInRow.has(turn.seat)) {
      row += 1;
      seatsInRow = new Set();
    }
    moment = turn.moment;
    seatsInRow.add(turn.seat);
    return [turn, row];
  });
}

/**
 * Return the columns of the seats, with the turns up to the current one.
 * @param {Object} answer the episode
 * @param {{turn: number, compared: number, compare: function}} options and the options of `card`
 */
export function seatColumns(answer, options) {
  const { seats, turns } = answer;
  const currentTurn = turns[options.turn];
  const columns = columnsOf(seats, currentTurn, options.compared);
  const grid = el("div", { class: "seats", vars: { "--columns": columns.length } });
  for (const seat of seats.filter((seat) => columns.includes(seat.seat)))
    grid.append(columnHead(seat, columns.indexOf(seat.seat) + 1, null));
  const pastTurns = turns.slice(0, options.turn + 1);
  const first = Math.max(0, pastTurns.length - BACK);
  const conversation = (turn) =>
    pastTurns.filter(
      (other) =>
        !other.hidden &&
        other.seat === turn.seat &&
        other.conversation === turn.conversation &&
        other.index <= turn.index,
    );
  for (const [turn, row] of rows(pastTurns.slice(first))) {
    const column = columns.indexOf(turn.seat);
    const role = seats.find((seat) => seat.seat === turn.seat)?.role ?? `seat ${turn.seat}`;
    if (column < 0) {
      const open = button(
        `turn ${turn.index + 1}: ${plain(role)}`,
        () => options.compare(turn.seat),
        { class: "plain dim" },
      );
      grid.append(
        el(
          "div",
          { class: "folded-turn", vars: { "--row": row } },
          open,
          " ",
          word(turn.action ?? ""),
        ),
      );
      continue;
    }
    const node = card(turn, {
      ...options,
      conversation,
      role,
      current: turn.index === options.turn,
    });
    node.style.setProperty("--col", column + 1);
    node.style.setProperty("--row", row);
    grid.append(node);
  }
  const earlier = first
    ? el("p", { class: "dim" }, `${first} earlier turns are not drawn; the timeline goes to them.`)
    : null;
  return el("div", {}, earlier, grid);
}
