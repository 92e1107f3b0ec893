/**
 * The timeline: a row for each seat, a column for each moment, whose turns are taken at once; bars
 * of the advantages, lines where a seat waits, an edge along the critical path.
 */

import { button, el, plain, svg, word } from "./dom.js";
import { signed } from "./format.js";

const HALF = 12; // height of half a bar, pixels

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
  const off = turn.event === "illegal" || turn.event === "unparsable";
  const advantage = turn.credit?.advantage;
  const said = [
    `turn ${turn.index + 1}`,
    turn.hidden ? "another seat's" : plain(turn.action ?? turn.event),
  ];
  if (advantage !== null && advantage !== undefined) said.push(`advantage ${signed(advantage)}`);
  if (turn.oracle?.regret) said.push(`lost ${turn.oracle.regret.toFixed(3)}`);
  if (critical) said.push("on the critical path");
  const later = turn.index > current;
  const kind = ["cell", off && "off", later && "to-come", critical && "critical"];
  const attributes = {
    class: kind.filter(Boolean).join(" "),
    title: said.join(", "),
    "aria-label": said.join(", "),
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
  const found = new Map();
  for (const turn of turns) {
    if (!found.has(turn.moment)) found.set(turn.moment, []);
    found.get(turn.moment).push(turn);
  }
  return [...found.entries()].sort((one, other) => one[0] - other[0]).map((entry) => entry[1]);
}

/** Return the head of a column: the numbers of its turns, the first and the last of many. */
function momentHead(own, current) {
  const first = own[0].index + 1;
  const last = own[own.length - 1].index + 1;
  const now = own.some((turn) => turn.index === current);
  const text = first === last ? String(first) : `${first}–${last}`;
  return el("th", { scope: "col", class: now ? "now" : "" }, text);
}

/** Return the cells of a seat: its turns, and where it waits between two of them. */
function seatCells(seat, moments, make) {
  const acts = moments.map((own) => own.filter((turn) => turn.seat === seat));
  const busy = acts.flatMap((own, at) => (own.length ? [at] : []));
  const [begin, end] = [busy[0], busy[busy.length - 1]];
  return acts.map((own, at) => {
    const waits = !own.length && at > begin && at < end;
    const line = waits ? el("span", { class: "waits", title: "waits" }) : null;
    return el("td", { class: waits ? "waiting" : "" }, own.length ? own.map(make) : line);
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
  const heads = moments.map((own) => momentHead(own, options.current));
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
