/** Points of several runs, kept as they come: only newer ones are asked for. */

/** Append the points of an answer to what is held. */
export function merge(held, answer) {
  if (answer.from_start || !held) {
    return { cursor: answer.cursor, series: answer.series, events: answer.events ?? [] };
  }
  const series = { ...held.series };
  for (const [name, one] of Object.entries(answer.series)) {
    const before = series[name];
    series[name] = before
      ? { ...one, x: [...before.x, ...one.x], y: [...before.y, ...one.y] }
      : one;
  }
  return { cursor: answer.cursor, series, events: [...held.events, ...(answer.events ?? [])] };
}

/** Make a store of points. `get` asks the server. */
export function store(get) {
  let asked = "";
  let runs = new Map();

  async function one(run, names, x, only) {
    const before = runs.get(run);
    if (before && only && !only.includes(run)) return;
    const values = { names: names.join(","), x, since: before?.cursor };
    runs.set(run, merge(before, await get(`/api/runs/${run}/series`, values)));
  }

  return {
    /**
     * Bring the points up to date.
     * @param {number[]} wanted numbers of runs
     * @param {string[]} names of figures
     * @param {string} x step, plays, tokens or seconds
     * @param {number[]|null} only runs whose records changed; null: all
     * @returns {Promise<Map>} run to {series, events}
     */
    async update(wanted, names, x, only = null) {
      const key = `${x} ${names.join(",")}`;
      if (key !== asked) runs = new Map();
      asked = key;
      const here = runs;
      if (names.length) await Promise.all(wanted.map((run) => one(run, names, x, only)));
      return new Map([...here].filter(([run]) => wanted.includes(run)));
    },
  };
}
