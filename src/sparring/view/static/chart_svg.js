/** Charts as SVG without hover: where uPlot is not there, and in cells of tables. */

import { plain, svg } from "./dom.js";
import { number } from "./format.js";

const LEFT = 64;
const BOTTOM = 34;
const FEW = 20; // points of a line that are drawn as dots too
const TOP = 12;

function bounds(columns) {
  let low = Infinity;
  let high = -Infinity;
  for (const column of columns) {
    for (const value of column) {
      if (value === null || value === undefined || !Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return [0, 1];
  if (low === high) return [low - (Math.abs(low) || 1) * 0.5, high + (Math.abs(high) || 1) * 0.5];
  return [low, high];
}

/** Return round numbers between two values. */
export function ticks(low, high, about = 4) {
  const raw = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((size) => size >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high + step * 1e-9; k += 1) found.push(k * step);
  return found.map((value) => Number(value.toPrecision(12)));
}

function path(x, y, atX, atY) {
  let drawn = "";
  let pen = "M";
  x.forEach((value, index) => {
    if (y[index] === null || y[index] === undefined) return;
    drawn += `${pen}${atX(value).toFixed(1)} ${atY(y[index]).toFixed(1)}`;
    pen = "L";
  });
  return drawn;
}

function scale([low, high], from, to, log = false) {
  const place = log ? Math.log10 : (value) => value;
  const span = place(high) - place(low) || 1;
  return (value) => from + ((place(value) - place(low)) / span) * (to - from);
}

function grid(chart, edges, atX, atY, width, bottom) {
  const parts = [];
  for (const tick of ticks(...edges.y)) {
    const y = atY(tick);
    parts.push(svg("path", { d: `M${LEFT} ${y}H${width - 4}`, class: "grid" }));
    parts.push(svg("text", { x: LEFT - 5, y: y + 4, "text-anchor": "end" }, number(tick)));
  }
  for (const tick of ticks(...edges.x, 5)) {
    parts.push(
      svg("text", { x: atX(tick), y: bottom + 15, "text-anchor": "middle" }, number(tick)),
    );
  }
  const middle = (TOP + bottom) / 2;
  parts.push(
    svg("text", { x: (LEFT + width) / 2, y: bottom + 30, "text-anchor": "middle" }, chart.xLabel),
    svg(
      "text",
      { transform: `rotate(-90 11 ${middle})`, x: 11, y: middle, "text-anchor": "middle" },
      plain(chart.yLabel ?? "", 40),
    ),
  );
  for (const event of chart.events ?? []) {
    const x = atX(event.x);
    const mark = svg("path", {
      d: `M${x} ${TOP}V${bottom}M${x - 5} ${TOP}h10l-5 8z`,
      class: "event",
    });
    mark.append(svg("title", {}, plain(event.text)));
    parts.push(mark);
  }
  return parts;
}

/** Return a chart as an SVG element; see charts.js for what it takes. */
export function drawSvg(chart, width) {
  const height = chart.height ?? 206;
  const bottom = height - BOTTOM;
  const bands = chart.bands ?? [];
  const positive = (y) => (chart.log ? Array.from(y, (v) => (v > 0 ? v : null)) : y);
  const columns = [
    ...chart.series.map((s) => positive(s.y)),
    ...bands.flatMap((b) => [b.low, b.high].map(positive)),
  ];
  const edges = {
    x: bounds([...chart.series, ...bands].map((line) => line.x)),
    y: bounds(chart.fromZero && !chart.log ? [...columns, [0]] : columns),
  };
  const atX = scale(edges.x, LEFT, width - 8);
  const atY = scale(edges.y, bottom, TOP, chart.log);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "curves" });
  root.append(...grid(chart, edges, atX, atY, width, bottom));
  for (const band of bands) {
    const there = path(band.x, positive(band.high), atX, atY);
    const back = path([...band.x].reverse(), [...positive(band.low)].reverse(), atX, atY);
    if (!there) continue;
    root.append(
      svg("path", {
        d: `${there}${back.replace("M", "L")}Z`,
        fill: band.colour,
        "fill-opacity": 0.18,
      }),
    );
  }
  for (const line of chart.series) {
    const one = svg("path", {
      d: path(line.x, positive(line.y), atX, atY),
      fill: "none",
      stroke: line.colour,
      "stroke-width": line.faint || line.reference ? 1 : 1.8,
      "stroke-opacity": line.faint ? 0.28 : 1,
      "stroke-dasharray": line.dash?.join(" "),
      "stroke-linecap": "round",
    });
    root.append(one);
    if (line.reference || line.faint || line.x.length > FEW) continue;
    positive(line.y).forEach((y, index) => {
      if (y === null || y === undefined) return;
      root.append(svg("circle", { cx: atX(line.x[index]), cy: atY(y), r: 2.5, fill: line.colour }));
    });
  }
  return root;
}

/** Return a small curve for a cell of a table, described by its first and last value. */
export function sparkline(values, { width = 84, height = 20, label = "" } = {}) {
  const known = values.filter((value) => value !== null && value !== undefined);
  const root = svg("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    class: "spark",
    role: "img",
  });
  const said = known.length ? `from ${number(known[0])} to ${number(known.at(-1))}` : "no values";
  root.setAttribute("aria-label", `${label} ${said}`);
  if (known.length < 2) return root;
  const atX = scale([0, known.length - 1], 2, width - 4);
  const atY = scale(bounds([known]), height - 3, 3);
  root.append(svg("path", { d: path([...known.keys()], known, atX, atY), class: "spark-line" }));
  root.append(
    svg("circle", { cx: atX(known.length - 1), cy: atY(known.at(-1)), r: 2, class: "spark-end" }),
  );
  return root;
}
