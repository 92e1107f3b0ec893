/** The timeline: a row for each seat, a cell for each turn, bars of the advantages. */

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
  const { current, choose } = options;
  const off = turn.event === "illegal" || turn.event === "unparsable";
  const advantage = turn.credit?.advantage;
  const said = [
    `turn ${turn.index + 1}`,
    turn.hidden ? "hidden" : plain(turn.action ?? turn.event),
  ];
  if (advantage !== null && advantage !== undefined) said.push(`advantage ${signed(advantage)}`);
  if (turn.oracle?.regret) said.push(`lost ${turn.oracle.regret.toFixed(3)}`);
  const kind = `cell ${off ? "off" : ""} ${turn.index > current ? "to-come" : ""}`;
  const attributes = {
    class: kind,
    title: said.join(", "),
    "aria-label": said.join(", "),
    "aria-current": turn.index === current ? "step" : null,
  };
  const node = button(
    el("span", { class: "cell-move" }, word(turn.hidden ? "?" : (turn.action ?? "×"))),
    () => choose(turn.index),
    attributes,
  );
  node.append(advantageBar(turn, top));
  if (turn.oracle?.regret > 1e-9)
    node.append(el("span", { class: "loss", "aria-hidden": "true" }, "▾"));
  return node;
}

/**
 * Return the timeline.
 * @param {Object} answer the episode
 * @param {{current: number, choose: function, scale: Object}} options
 */
export function timeline(answer, options) {
  const { seats, turns } = answer;
  const top = tallest(turns, options.scale);
  const table = el("table", { class: "timeline", "aria-label": "turns of every seat" });
  const numbers = turns.map((turn) =>
    el(
      "th",
      { scope: "col", class: turn.index === options.current ? "now" : "" },
      String(turn.index + 1),
    ),
  );
  table.append(el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "turn"), numbers)));
  const rows = seats.map((seat) => {
    const cells = turns.map((turn) =>
      el("td", {}, turn.seat === seat.seat ? cell(turn, options, top) : null),
    );
    return el("tr", {}, el("th", { scope: "row" }, word(seat.role)), cells);
  });
  table.append(el("tbody", {}, rows));
  return el("div", { class: "scroll" }, table);
}
