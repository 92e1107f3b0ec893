/** What is played, in which seat, against whom. */

import { button, el, plain, word } from "./dom.js";

/** Return a labelled list to choose from. */
export function chooser(name, label, rows, chosen) {
  const options = rows.map(([value, said]) =>
    el("option", { value, selected: String(value) === String(chosen ?? "") }, plain(said, 120)),
  );
  return el("label", { class: "choice" }, el("span", {}, label), el("select", { name }, options));
}

/** Return the lists of seats and of players of an environment. */
export function seatChoices(answer, chosen) {
  const seats = answer.roles.map((role, seat) => [seat, `${role} (seat ${seat})`]);
  const against = answer.against.map(({ name, said }) => [name, said]);
  const known = against.some(([name]) => name === chosen.against);
  if (chosen.against && !known && answer.roles.length > 1)
    against.unshift([chosen.against, chosen.against]);
  return [
    seats.length > 1 ? chooser("seat", "your seat", seats, chosen.seat) : null,
    against.length ? chooser("against", "against", against, chosen.against) : null,
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
 * @param {function} begin takes what was chosen
 */
export async function choices(box, now, get, begin) {
  const { runs } = await get("/api/runs");
  const usable = runs.filter(({ state }) => state !== "gone" && state !== "unreadable");
  const known = usable.map(({ run, name }) => [run, `run ${name}`]);
  const listed = [...known, ["", "no run: bots only"]];
  // an address with an environment and no run means none: empty values are not in addresses
  const run = now.run ?? (now.environment || !known.length ? "" : known[0][0]);
  const draw = async (chosen) => {
    const { run: from, environment } = chosen;
    let answer;
    let trouble = null;
    try {
      answer = await get("/play", { run: from, environment });
    } catch (error) {
      trouble = el("p", { class: "note bad", role: "alert" }, word(error.message));
      answer = { environments: [], environment: "", roles: [], against: [] };
    }
    const environments = answer.environments.map((name) => [name, name]);
    const fields = el(
      "div",
      { class: "choices" },
      chooser("run", "policies of", listed, from),
      chooser("environment", "environment", environments, answer.environment),
      seatChoices(answer, chosen),
    );
    const changed = (event) => {
      const found = form(fields);
      if (event.target.name === "run") draw({ run: found.run });
      else if (event.target.name === "environment")
        draw({ run: found.run, environment: found.environment });
    };
    fields.addEventListener("change", changed);
    const start = button("Play (Enter)", () => begin(form(fields)), {
      class: "begin",
      disabled: !answer.roles.length,
    });
    box.replaceChildren(el("h1", {}, "Play"), ...[trouble, fields, start].filter(Boolean));
    box.dataset.phase = "choosing";
    start.focus();
  };
  await draw({ ...now, run });
}
