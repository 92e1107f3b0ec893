/** The exported page: one episode, drawn from the data in the page itself. */

import { el } from "./dom.js";
import { stage } from "./stage.js";
import { COLOURINGS } from "./tokens.js";

const data = JSON.parse(document.querySelector("#replay").textContent);
const screen = { turn: data.episode.turns.length - 1, colouring: COLOURINGS[0], compared: null };

function picture(index) {
  const drawing = data.boards?.[String(index)];
  if (!drawing?.svg) return null;
  return { address: `data:image/svg+xml,${encodeURIComponent(drawing.svg)}`, said: drawing.said };
}

function redraw() {
  const answer = data.episode;
  const view = {
    ...screen,
    pictures: [
      picture(screen.turn),
      screen.turn === answer.turns.length - 1 ? picture(screen.turn + 1) : null,
    ],
    choose: (index) => set({ turn: Math.max(0, Math.min(answer.turns.length - 1, index)) }),
    colour: (name) => set({ colouring: name }),
    compare: (seat) => set({ compared: seat }),
    seat: null,
  };
  const footer = el(
    "p",
    { class: "dim made" },
    `${data.made_by ?? "sparring"} · run ${answer.name} · keys: ← → Home End C`,
  );
  const inTimeline = document.activeElement?.closest?.(".timeline, .steps");
  document.querySelector("#main").replaceChildren(stage(answer, view), footer);
  if (inTimeline) document.querySelector(".timeline [aria-current]")?.focus();
}

function set(values) {
  Object.assign(screen, values);
  redraw();
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const last = data.episode.turns.length - 1;
  const colours = COLOURINGS.length;
  const acts = {
    ArrowLeft: () => set({ turn: Math.max(0, screen.turn - 1) }),
    ArrowRight: () => set({ turn: Math.min(last, screen.turn + 1) }),
    Home: () => set({ turn: 0 }),
    End: () => set({ turn: last }),
    c: () => set({ colouring: COLOURINGS[(COLOURINGS.indexOf(screen.colouring) + 1) % colours] }),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches
  ? "dark"
  : "light";
document.title = `${data.episode.game} episode ${data.episode.episode}`;
document.addEventListener("keydown", key);
redraw();
