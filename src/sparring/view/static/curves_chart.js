/** The content of a chart of several runs: settings, groups of seeds, lines and bands. */

import { paint } from "./charts.js";
import { beginsAtZero } from "./metric_names.js";
import { picked } from "./runs.js";
import { interval, smooth } from "./statistics.js";

const SHOWN = 6; // number of figures shown if none are chosen
const SPARSE = 20; // a curve with at most this many points is never smoothed

/** Kinds of the x axis. */
export const AXES = ["step", "plays", "tokens", "seconds"];
/** Displayed names of axes that differ from their kinds. */
export const AXIS_NAMES = { plays: "episodes" };

/** Return the settings in the query of the address, with defaults. */
export function settings(now, runs) {
  const isKnown = (number) => runs.some((run) => run.run === number);
  const requested = picked(now.runs ?? now.run).filter(isKnown);
  const runNumbers = requested.length ? requested : runs.slice(0, 6).map((run) => run.run);
  const keys = [
    ...new Set(runs.filter((run) => runNumbers.includes(run.run)).flatMap((run) => run.key ?? [])),
  ];
  return {
    runs: runNumbers,
    names: now.metrics ? now.metrics.split(",") : keys.slice(0, SHOWN),
    x: AXES.includes(now.x) ? now.x : "step",
    smooth: Math.min(0.99, Math.max(0, Number(now.smooth) || 0)),
    grouped: now.group === "1",
    log: now.log === "1",
  };
}

/** Return the runs in groups: runs that differ only in the seed, or each run alone. */
export function groups(runs, choice) {
  const chosenRuns = runs.filter((run) => choice.runs.includes(run.run));
  if (!choice.grouped) return chosenRuns.map((run) => ({ name: run.name, members: [run] }));
  const byFamily = new Map();
  for (const run of chosenRuns) {
    const key = run.family ?? `run ${run.run}`;
    if (!byFamily.has(key)) byFamily.set(key, { name: run.recipe ?? run.name, members: [] });
    byFamily.get(key).members.push(run);
  }
  return [...byFamily.values()];
}

/** Return a line across the chart for each reference value, from the first x to the last. */
function across(references, series) {
  const xs = series.flatMap(({ x }) => (x.length ? [x[0], x[x.length - 1]] : []));
  if (!xs.length) return [];
  const ends = [Math.min(...xs), Math.max(...xs)];
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--dim").trim();
  return references.map(({ label, value }) => ({
    name: label,
    x: ends,
    y: [value, value],
    colour,
    dash: label === "random play" ? [2, 4] : [8, 4],
    reference: true,
  }));
}

/**
 * Return the chart of one figure: a mean and a band for three seeds or more, else lines.
 *
 * A smoothed line also has its measured values.
 */
export function chartOf(name, all, points, choice, references = []) {
  const chart = {
    title: name,
    xLabel: AXIS_NAMES[choice.x] ?? choice.x,
    yLabel: name.split("/")[0],
    fromZero: beginsAtZero(name),
    log: choice.log,
    series: [],
    bands: [],
    events: [],
    note: "",
  };
  const notes = [];
  all.forEach((group, index) => {
    const { colour, dash } = paint(index);
    const members = group.members.filter((run) => points.get(run.run)?.series[name]?.x.length);
    const curves = members.map((run) => ({ run, ...points.get(run.run).series[name] }));
    const sparse = curves.some(({ x }) => x.length <= SPARSE);
    const weight = sparse ? 0 : choice.smooth;
    if (choice.smooth && sparse) notes.push(`not smoothed: ${SPARSE} points or fewer`);
    if (curves.length >= 3) {
      const band = interval(curves.map(({ x, y }) => ({ x, y: smooth(y, weight) })));
      const values = weight ? interval(curves).mean : null;
      const title = `${group.name}, mean of ${curves.length} seeds`;
      chart.series.push({ name: title, x: band.x, y: band.mean, values, colour, dash });
      chart.bands.push({ x: band.x, low: band.low, high: band.high, colour });
      notes.push(
        `mean and 95 % t-interval${weight ? " of the smoothed curves" : ""}, ` +
          `n = ${curves.length} seeds`,
      );
    } else {
      for (const { run, x, y } of curves) {
        if (weight) chart.series.push({ name: run.name, x, y, colour, faint: true });
        const values = weight ? y : null;
        chart.series.push({ name: run.name, x, y: smooth(y, weight), values, colour, dash });
      }
    }
    for (const run of group.members) {
      for (const { x, metric, message, stops } of points.get(run.run)?.events ?? []) {
        if (metric === name) chart.events.push({ x, text: message, level: stops ? "bad" : "warn" });
      }
    }
  });
  chart.series.push(...across(references, chart.series));
  chart.note = [...new Set(notes)].join("; ");
  return chart;
}
