/**
 * The timeline: a row per seat, and a column per moment with the turns of this moment. Bars show
 * advantages, lines waiting seats, and an edge the critical path.
 */

import { button, el, plain, svg, word } from "./dom.js";
import { signed } from "./format.js";

const HALF = 12; // largest height of a bar above or below its axis, in pixels

function tallest(turns, scale) {
  return (
    Math.max(scale.advantage || 0, ...turns.map((turn) => Math.abs(turn.credit?.advantage ?? 0))) ||
    1
  );
}

function advantageBar(turn, top) {
  const value = turn.credit?.advantage;
  const root = svg("svg", {
    viewBox: `0 0 16 ${2 * HALF}`,
    width: 16,
    height: 2 * HALF,
    "aria-hidden": "true",
  });
  root.append(svg("path", { d: `M0 ${HALF}H16`, class: "grid" }));
  if (value === null || value === undefined) return root;
  const height = Math.min(HALF, (Math.abs(value) / top) * HALF);
  const y = value < 0 ? HALF : HALF - height;
  root.append(
    svg("rect", { x: 3, width: 10, y, height, class: value < 0 ? "bar-neg" : "bar-pos" }),
  );
  return root;
}

function cell(turn, options, top) {
  const { current, choose, critical } = options;
  const isFault = turn.event === "illegal" || turn.event === "unparsable";
  const advantage = turn.credit?.advantage;
  const words = [
    `turn ${turn.index + 1}`,
    turn.hidden ? "another seat's" : plain(turn.action ?? turn.event),
  ];
  if (advantage !== null && advantage !== undefined) words.push(`advantage ${signed(advantage)}`);
  if (turn.oracle?.regret) words.push(`lost ${turn.oracle.regret.toFixed(3)}`);
  if (critical) words.push("on the critical path");
  const isLater = turn.index > current;
  const kind = ["cell", isFault && "off", isLater && "to-come", critical && "critical"];
  const attributes = {
    class: kind.filter(Boolean).join(" "),
    title: words.join(", "),
    "aria-label": words.join(", "),
    "aria-current": turn.index === current ? "step" : null,
  };
  const node = button(
    el("span", { class: "cell-move" }, word(turn.hidden ? "–" : (turn.action ?? "×"))),
    () => choose(turn.index),
    attributes,
  );
  node.append(advantageBar(turn, top));
  if (turn.oracle?.regret > 1e-9)
    node.append(el("span", { class: "loss", "aria-hidden": "true" }, "▾"));
  return node;
}

/** Return the turns of each moment, in order. */
function momentsOf(turns) {
  const byMoment = new Map();
  for (const turn of turns) {
    if (!byMoment.has(turn.moment)) byMoment.set(turn.moment, []);
    byMoment.get(turn.moment).push(turn);
  }
  return [...byMoment.entries()].sort((one, other) => one[0] - other[0]).map((entry) => entry[1]);
}

/** Return the head of a column: the number of its turn, or the first and the last number. */
function momentHead(momentTurns, current) {
  const first = momentTurns[0].index + 1;
  const last = momentTurns[momentTurns.length - 1].index + 1;
  const isCurrent = momentTurns.some((turn) => turn.index === current);
  const text = first === last ? String(first) : `${first}–${last}`;
  return el("th", { scope: "col", class: isCurrent ? "now" : "" }, text);
}

/** Return the cells of a seat: its turns, and a line in each moment in which it waits. */
function seatCells(seat, moments, make) {
  const acts = moments.map((momentTurns) => momentTurns.filter((turn) => turn.seat === seat));
  const busyMoments = acts.flatMap((momentTurns, at) => (momentTurns.length ? [at] : []));
  const [begin, end] = [busyMoments[0], busyMoments[busyMoments.length - 1]];
  return acts.map((momentTurns, at) => {
    const waits = !momentTurns.length && at > begin && at < end;
    const line = waits ? el("span", { class: "waits", title: "waits" }) : null;
    const content = momentTurns.length ? momentTurns.map(make) : line;
    return el("td", { class: waits ? "waiting" : "" }, content);
  });
}

/**
 * Return the timeline.
 * @param {Object} answer the episode; `path` holds the turns of the critical path
 * @param {{current: number, choose: function, scale: Object}} options
 */
export function timeline(answer, options) {
  const { seats, turns } = answer;
  const top = tallest(turns, options.scale);
  const table = el("table", { class: "timeline", "aria-label": "turns of every seat" });
  const moments = momentsOf(turns);
  const critical = turns.length > moments.length ? new Set(answer.path ?? []) : new Set();
  const make = (turn) => cell(turn, { ...options, critical: critical.has(turn.index) }, top);
  const heads = moments.map((momentTurns) => momentHead(momentTurns, options.current));
  table.append(el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "turn"), heads)));
  const rows = seats.map((seat) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, word(seat.role)),
      seatCells(seat.seat, moments, make),
    ),
  );
  table.append(el("tbody", {}, rows));
  return el("div", { class: "scroll" }, table);
}
