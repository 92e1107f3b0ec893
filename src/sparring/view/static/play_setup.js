/** The choices before an episode: run, environment, seat and opponent. */

import { button, el, plain, word } from "./dom.js";

/** Return a labelled list to choose from. */
export function chooser(name, label, rows, selection) {
  const options = rows.map(([value, text]) =>
    el("option", { value, selected: String(value) === String(selection ?? "") }, plain(text, 120)),
  );
  return el("label", { class: "choice" }, el("span", {}, label), el("select", { name }, options));
}

/** Return the lists of seats and of players of an environment. */
export function seatChoices(answer, selection) {
  const seats = answer.roles.map((role, seat) => [seat, `${role} (seat ${seat})`]);
  const against = answer.against.map(({ name, said: text }) => [name, text]);
  const isListed = against.some(([name]) => name === selection.against);
  if (selection.against && !isListed && answer.roles.length > 1)
    against.unshift([selection.against, selection.against]);
  return [
    seats.length > 1 ? chooser("seat", "your seat", seats, selection.seat) : null,
    against.length ? chooser("against", "against", against, selection.against) : null,
  ];
}

function form(box) {
  const fields = [...box.querySelectorAll("select")].map(({ name, value }) => [name, value]);
  return Object.fromEntries(fields);
}

/**
 * Draw the choices.
 * @param {Element} box is filled
 * @param {Object} now the state of the address: run, environment, seat, against
 * @param {function} get asks the server
 * @param {function} begin takes the chosen values, by name
 */
export async function choices(box, now, get, begin) {
  const { runs } = await get("/api/runs");
  const readableRuns = runs.filter(({ state }) => state !== "gone" && state !== "unreadable");
  const runRows = readableRuns.map(({ run, name }) => [run, `run ${name}`]);
  const rows = [...runRows, ["", "no run: bots only"]];
  // an address with an environment but without a run means "no run"
  const run = now.run ?? (now.environment || !runRows.length ? "" : runRows[0][0]);
  const draw = async (selection) => {
    const { run: selectedRun, environment } = selection;
    let answer;
    let errorNote = null;
    try {
      answer = await get("/play", { run: selectedRun, environment });
    } catch (error) {
      errorNote = el("p", { class: "note bad", role: "alert" }, word(error.message));
      answer = { environments: [], environment: "", roles: [], against: [] };
    }
    const environments = answer.environments.map((name) => [name, name]);
    const fields = el(
      "div",
      { class: "choices" },
      chooser("run", "policies of", rows, selectedRun),
      chooser("environment", "environment", environments, answer.environment),
      seatChoices(answer, selection),
    );
    const changed = (event) => {
      const values = form(fields);
      if (event.target.name === "run") draw({ run: values.run });
      else if (event.target.name === "environment")
        draw({ run: values.run, environment: values.environment });
    };
    fields.addEventListener("change", changed);
    const start = button("Play (Enter)", () => begin(form(fields)), {
      class: "begin",
      disabled: !answer.roles.length,
    });
    box.replaceChildren(el("h1", {}, "Play"), ...[errorNote, fields, start].filter(Boolean));
    box.dataset.phase = "choosing";
    start.focus();
  };
  await draw({ ...now, run });
}
