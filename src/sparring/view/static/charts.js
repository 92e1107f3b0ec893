/**
 * Curves. All are drawn through `draw`, by uPlot.
 *
 * A series is {name, x, y, values, colour, faint, dash, reference}, a band {x, low, high, colour},
 * an event {x, text, level}. If y is smoothed, `values` has the measured values. A reference is a
 * line across the chart: the value of random or best play.
 */

import { el, plain, word } from "./dom.js";
import { number } from "./format.js";
import Plot from "./vendor/uPlot.esm.js";

const HEIGHT = 206;
const FEW = 20; // a line with at most this many points has dots too

/** Return the colour of the n-th series of a chart, and whether its line is dashed. */
export function paint(index) {
  const style = getComputedStyle(document.documentElement);
  const colour = style.getPropertyValue(`--series-${index % 6}`).trim();
  return { colour, dash: index >= 6 ? [6, 4] : null };
}

function join(series, bands) {
  const xs = [...new Set([...series, ...bands].flatMap((line) => Array.from(line.x)))];
  xs.sort((left, right) => left - right);
  const at = new Map(xs.map((x, index) => [x, index]));
  const spread = (x, y) => {
    const column = new Array(xs.length).fill(null);
    x.forEach((value, index) => {
      column[at.get(value)] = y[index];
    });
    return column;
  };
  return { xs, spread };
}

function fade(colour, share) {
  const value = Number.parseInt(colour.slice(1), 16);
  return `rgba(${value >> 16}, ${(value >> 8) & 255}, ${value & 255}, ${share})`;
}

function marks(now, colours) {
  return (plot) => {
    const events = now.chart.events ?? [];
    const context = plot.ctx;
    context.save();
    for (const event of events) {
      const x = plot.valToPos(event.x, "x", true);
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
      context.strokeStyle = colours[event.level] ?? colours.warn;
      context.fillStyle = context.strokeStyle;
      context.setLineDash([3, 3]);
      context.beginPath();
      context.moveTo(x, plot.bbox.top);
      context.lineTo(x, plot.bbox.top + plot.bbox.height);
      context.stroke();
      context.beginPath();
      context.moveTo(x - 6, plot.bbox.top);
      context.lineTo(x + 6, plot.bbox.top);
      context.lineTo(x, plot.bbox.top + 9);
      context.fill();
    }
    context.restore();
  };
}

function curvesOf(chart) {
  return chart.series.filter((line) => !line.faint && !line.reference && line.x.length);
}

/** Return a measured value as text, with the smoothed value if there is one. */
function valueText(value, smoothed) {
  return smoothed === null ? number(value) : `${number(value)} (smoothed ${number(smoothed)})`;
}

/** Return the last value of a line in words. */
function lastOf({ y, values }) {
  const last = (column) => column.findLast((value) => value !== null);
  return values ? valueText(last(values), last(y)) : valueText(last(y), null);
}

/** Return the last value of each line, the reference values, and the chart's note. */
function atRest(chart) {
  const curves = curvesOf(chart);
  const last = curves
    .slice(0, 8)
    .map((line) =>
      el(
        "span",
        { class: "read", vars: { "--c": line.colour } },
        curves.length > 1 ? word(line.name) : "last",
        ` ${lastOf(line)}`,
      ),
    );
  const across = chart.series
    .filter((line) => line.reference)
    .map(({ name, y, dash }) => {
      const kind = `dim reference ${dash[0] < 5 ? "dots" : ""}`;
      return el("span", { class: kind }, `${plain(name)} ${number(y[0])}`);
    });
  return [...last, ...across, el("span", { class: "dim" }, chart.note ?? "")];
}

/** Write the values under the cursor below the chart. */
function readout(line, now) {
  return (plot) => {
    const { chart, names } = now;
    const index = plot.cursor.idx;
    if (index === null || index === undefined) {
      line.replaceChildren(...atRest(chart));
      return;
    }
    const x = plot.data[0][index];
    const parts = [`${chart.xLabel} ${number(x)}`];
    names.forEach(({ name, colour, values }, at) => {
      const value = plot.data[at + 1][index];
      if (!name || value === null || value === undefined) return;
      const text = values ? valueText(values[index], value) : valueText(value, null);
      parts.push(el("span", { class: "read", vars: { "--c": colour } }, word(name), ` ${text}`));
    });
    const reach = plot.posToVal(8, "x") - plot.posToVal(0, "x");
    for (const event of chart.events ?? []) {
      if (Math.abs(event.x - x) <= reach)
        parts.push(el("span", { class: "event" }, "▼ ", word(event.text)));
    }
    line.replaceChildren(...parts);
  };
}

function axes(style, chart) {
  const common = {
    labelFont: "11px system-ui",
    labelSize: 16,
    labelGap: 0,
    stroke: style.getPropertyValue("--dim").trim(),
    grid: { stroke: style.getPropertyValue("--line").trim(), width: 1 },
    ticks: { show: false },
    font: "11px system-ui",
  };
  const values = (plot, ticks) => ticks.map((tick) => (tick === null ? "" : number(tick)));
  return [
    { ...common, values, size: 26, label: plain(chart.xLabel) },
    { ...common, values, size: 52, space: 26, label: plain(chart.yLabel ?? "", 40) },
  ];
}

function lines(chart) {
  const { xs, spread } = join(chart.series, chart.bands ?? []);
  const columns = [];
  const series = [];
  const bands = [];
  const names = [];
  for (const line of chart.series) {
    columns.push(spread(line.x, line.y));
    const values = line.values ? spread(line.x, line.values) : null;
    const name = line.faint || line.reference ? "" : line.name;
    names.push({ name, colour: line.colour, values });
    const stroke = line.faint ? fade(line.colour, 0.28) : line.colour;
    const hasDots = line.x.length <= FEW && !line.reference;
    const points = { show: hasDots, size: 5, fill: line.colour };
    const width = line.faint || line.reference ? 1 : 1.8;
    series.push({ stroke, width, dash: line.dash, spanGaps: true, points });
  }
  for (const band of chart.bands ?? []) {
    for (const bound of [band.high, band.low]) {
      columns.push(spread(band.x, bound));
      names.push({ name: "", colour: band.colour });
      series.push({ stroke: "transparent", width: 0, spanGaps: true, points: { show: false } });
    }
    bands.push({ series: [series.length - 1, series.length], fill: fade(band.colour, 0.18) });
  }
  return { data: [xs, ...columns], series, bands, names };
}

/** Return the ends of a chart that begins at 0, unless a value lies below. */
function fromZero(plot, low, high) {
  if (low === null) return [0, 1];
  return low < 0 ? Plot.rangeNum(low, high, 0.1, true) : [0, high * 1.06 || 1];
}

function optionsOf(box, line, now) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const { chart } = now;
  const y = chart.log ? { distr: 3 } : chart.fromZero ? { range: fromZero } : {};
  return {
    width: box.clientWidth || 400,
    height: chart.height ?? HEIGHT,
    padding: [8, 10, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: "sparring" }, drag: { x: true, y: false }, points: { size: 6 } },
    scales: { x: { time: false }, y },
    axes: axes(style, chart),
    series: [{}, ...now.series],
    bands: now.bands,
    hooks: {
      draw: [marks(now, { warn: colour("--warn"), bad: colour("--bad") })],
      setCursor: [readout(line, now)],
    },
  };
}

/** Return a key: a plot can take the points of a new chart if both charts have the same key. */
function shape(chart) {
  const lines = chart.series.map(({ name, colour, faint }) => [name, colour, Boolean(faint)]);
  return JSON.stringify([lines, chart.bands?.length ?? 0, Boolean(chart.log), chart.xLabel]);
}

function drawPlot(box, line, chart) {
  const now = { chart, ...lines(chart) };
  const options = optionsOf(box, line, now);
  const plot = new Plot(options, now.data, box);
  const watch = new ResizeObserver(() => {
    plot.setSize({ width: box.clientWidth, height: options.height });
  });
  watch.observe(box);
  return {
    renew(next) {
      Object.assign(now, { chart: next, ...lines(next) });
      const zoomed = plot.scales.x.min > plot.data[0][0];
      plot.setData(now.data, !zoomed);
      if (plot.cursor.left < 0 || plot.cursor.left === undefined)
        line.replaceChildren(...atRest(next));
    },
    close() {
      watch.disconnect();
      plot.destroy();
    },
  };
}

/** Draw a chart; return a handle that can renew its points, or null if it has no points. */
function place(element, chart) {
  const curves = curvesOf(chart);
  const last = curves.map((line) => `${plain(line.name)}: ${lastOf(line)}`);
  const values = last.slice(0, 12).join("; ");
  const label = `${plain(chart.title)} over ${chart.xLabel}. Last values: ${values}.`;
  const box = el("div", { class: "plot", role: "img", "aria-label": label });
  const line = el("p", { class: "readout" }, atRest(chart));
  element.replaceChildren(box, line);
  if (!curves.length) {
    box.replaceChildren(el("p", { class: "missing" }, "no points yet"));
    return null;
  }
  return drawPlot(box, line, chart);
}

/**
 * Draw a chart into an element, with its last values in words for people who cannot see it.
 * @param {Element} element emptied first
 * @param {{title: string, note: string, xLabel: string, series: Array, bands: Array,
 *   events: Array, log: boolean, fromZero: boolean, yLabel: string, height: number}} chart
 * @returns {{update: function, close: function}} update draws a chart with newer points
 */
export function draw(element, chart) {
  let handle = place(element, chart);
  let currentShape = shape(chart);
  return {
    update(next) {
      if (handle && shape(next) === currentShape) {
        handle.renew(next);
        return;
      }
      handle?.close();
      handle = place(element, next);
      currentShape = shape(next);
    },
    close() {
      handle?.close();
      element.replaceChildren();
    },
  };
}
