/** Statistics of curves of several runs: smoothing, a mean, and its interval. */

// quantile 0.975 of Student's t by degrees of freedom, from 1
const T95 = [
  12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.16, 2.145,
  2.131, 2.12, 2.11, 2.101, 2.093, 2.086, 2.08, 2.074, 2.069, 2.064, 2.06, 2.056, 2.052, 2.048,
  2.045, 2.042,
];

/** Return the factor of a 95 % interval of a mean over n values. */
export function t95(n) {
  return n - 1 <= T95.length ? T95[n - 2] : 1.96 + 2.5 / (n - 1);
}

/**
 * Return an exponential moving average, corrected for its start at 0.
 * @param {Array} values null if a value is missing
 * @param {number} weight of the earlier values, from 0 to below 1
 */
export function smooth(values, weight) {
  let sum = 0;
  let mass = 0;
  return Array.from(values, (value) => {
    if (value === null || value === undefined) return null;
    sum = weight * sum + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return sum / mass;
  });
}

/**
 * Return the mean over runs and its 95 % t-interval, for each x at which all runs have a value.
 * @param {Array<{x: Array, y: Array}>} lines one for each seed
 */
export function interval(lines) {
  const byX = new Map();
  for (const line of lines) {
    line.x.forEach((x, index) => {
      const value = line.y[index];
      if (value === null || value === undefined) return;
      if (!byX.has(x)) byX.set(x, []);
      byX.get(x).push(value);
    });
  }
  const complete = [...byX].filter(([, values]) => values.length === lines.length);
  complete.sort(([left], [right]) => left - right);
  const result = { x: [], mean: [], low: [], high: [] };
  for (const [x, values] of complete) {
    const n = values.length;
    const mean = values.reduce((sum, value) => sum + value, 0) / n;
    const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    const half = n > 1 ? (t95(n) * Math.sqrt(square / (n - 1))) / Math.sqrt(n) : 0;
    result.x.push(x);
    result.mean.push(mean);
    result.low.push(mean - half);
    result.high.push(mean + half);
  }
  return result;
}
