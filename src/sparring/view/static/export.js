/** The mailed page: one play, drawn from the data in the page itself. */

import { el } from "./dom.js";
import { stage } from "./stage.js";
import { COLOURINGS } from "./tokens.js";

const mailed = JSON.parse(document.querySelector("#replay").textContent);
const shown = { turn: mailed.episode.turns.length - 1, colouring: COLOURINGS[0], compared: null };

function picture(index) {
  const drawn = mailed.boards?.[String(index)];
  if (!drawn?.svg) return null;
  return { address: `data:image/svg+xml,${encodeURIComponent(drawn.svg)}`, said: drawn.said };
}

function redraw() {
  const answer = mailed.episode;
  const view = {
    ...shown,
    pictures: [
      picture(shown.turn),
      shown.turn === answer.turns.length - 1 ? picture(shown.turn + 1) : null,
    ],
    choose: (index) => set({ turn: Math.max(0, Math.min(answer.turns.length - 1, index)) }),
    colour: (name) => set({ colouring: name }),
    compare: (seat) => set({ compared: seat }),
    seat: null,
  };
  const made = el(
    "p",
    { class: "dim made" },
    `${mailed.made_by ?? "sparring"} · run ${answer.name} · keys: ← → Home End C`,
  );
  const inTimeline = document.activeElement?.closest?.(".timeline, .steps");
  document.querySelector("#main").replaceChildren(stage(answer, view), made);
  if (inTimeline) document.querySelector(".timeline [aria-current]")?.focus();
}

function set(values) {
  Object.assign(shown, values);
  redraw();
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const last = mailed.episode.turns.length - 1;
  const colours = COLOURINGS.length;
  const acts = {
    ArrowLeft: () => set({ turn: Math.max(0, shown.turn - 1) }),
    ArrowRight: () => set({ turn: Math.min(last, shown.turn + 1) }),
    Home: () => set({ turn: 0 }),
    End: () => set({ turn: last }),
    c: () => set({ colouring: COLOURINGS[(COLOURINGS.indexOf(shown.colouring) + 1) % colours] }),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";
document.title = `${mailed.episode.game} episode ${mailed.episode.episode}`;
document.addEventListener("keydown", key);
redraw();
