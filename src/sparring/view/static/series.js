/** A store of the points of several runs, which requests only newer points. */

/** Append the points of an answer to the stored points. */
export function merge(stored, answer) {
  if (answer.from_start || !stored) {
    return { cursor: answer.cursor, series: answer.series, events: answer.events ?? [] };
  }
  const series = { ...stored.series };
  for (const [name, newPoints] of Object.entries(answer.series)) {
    const before = series[name];
    series[name] = before
      ? { ...newPoints, x: [...before.x, ...newPoints.x], y: [...before.y, ...newPoints.y] }
      : newPoints;
  }
  return { cursor: answer.cursor, series, events: [...stored.events, ...(answer.events ?? [])] };
}

/** Make a store of points. `get` sends a request to the server. */
export function store(get) {
  let storedKey = "";
  let runs = new Map();

  async function loadRun(run, names, x, only) {
    const before = runs.get(run);
    if (before && only && !only.includes(run)) return;
    const values = { names: names.join(","), x, since: before?.cursor };
    runs.set(run, merge(before, await get(`/api/runs/${run}/series`, values)));
  }

  return {
    /**
     * Bring the points up to date.
     * @param {number[]} numbers numbers of the runs
     * @param {string[]} names of figures
     * @param {string} x step, plays, tokens or seconds
     * @param {number[]|null} only runs whose records changed; null: all
     * @returns {Promise<Map>} run to {series, events}
     */
    async update(numbers, names, x, only = null) {
      const key = `${x} ${names.join(",")}`;
      if (key !== storedKey) runs = new Map();
      storedKey = key;
      const current = runs;
      if (names.length) await Promise.all(numbers.map((run) => loadRun(run, names, x, only)));
      return new Map([...current].filter(([run]) => numbers.includes(run)));
    },
  };
}
