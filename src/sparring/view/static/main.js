/** The page: its current view, theme, keys and updates. */

import { forgetAhead, takeAhead } from "./ahead.js";
import { get, Refusal, takeToken } from "./api.js";
import { button, el } from "./dom.js";
import { help, listen, setKeys } from "./keys.js";
import { noteVersion, watch } from "./live.js";
import { address, follow, state } from "./router.js";

const VIEWS = {
  runs: { title: "Runs", load: () => import("./runs.js") },
  curves: { title: "Curves", load: () => import("./curves.js") },
  replay: { title: "Replays", load: () => import("./replays.js") },
  league: { title: "League", load: () => import("./league.js") },
  workers: { title: "Workers", load: () => import("./workers.js") },
  play: { title: "Play", load: () => import("./play.js") },
};
const page = { name: null, view: null, requests: 0, loads: 0 };
const root = document.querySelector("#view");

/** Count what was drawn: tests and benchmarks wait for this number. */
function countDrawing() {
  page.loads += 1;
  document.documentElement.dataset.loaded = String(page.loads);
}

function sayFailure(error) {
  if (!(error instanceof Refusal)) console.error(error);
  const retryButton = button("Try again", () => show(true));
  root.replaceChildren(
    el("div", { class: "failure", role: "alert" }, el("p", {}, error.message), retryButton),
  );
}

function navigation(now) {
  const runParams = { run: now.run, runs: now.runs };
  const links = Object.entries(VIEWS).map(([name, { title }]) => {
    const current = name === page.name ? "page" : null;
    return el(
      "a",
      { href: address({ view: name, ...runParams }), "data-view": name, "aria-current": current },
      title,
    );
  });
  document.querySelector("nav").replaceChildren(...links);
}

function viewOf({ view }) {
  return Object.hasOwn(VIEWS, view ?? "") ? view : "runs";
}

async function show(anew = false) {
  const now = state();
  const name = viewOf(now);
  page.requests += 1;
  const request = page.requests;
  try {
    if (name !== page.name || anew || !page.view) {
      page.view?.close?.();
      page.view = null;
      page.name = name;
      navigation(now);
      const module = await VIEWS[name].load();
      if (request !== page.requests) return;
      root.replaceChildren();
      page.view = module.open(root, { get: fetchForView, setKeys, status });
      document.title = `${VIEWS[name].title} · Sparring`;
    }
    navigation(now);
    await page.view.show(now);
    forgetAhead();
    if (request === page.requests) countDrawing();
  } catch (error) {
    if (request !== page.requests) return;
    page.view?.close?.();
    page.view = null;
    sayFailure(error);
    countDrawing();
  }
}

/** Get data for a view; polls start from the version of the data. */
async function fetchForView(path, values, signal) {
  const answer = await (takeAhead(path, values) ?? get(path, values, signal));
  noteVersion(answer?.version);
  return answer;
}

function status(sentence) {
  document.querySelector("#live").textContent = sentence;
}

async function changed(answer) {
  const { indexing } = answer;
  status(indexing ? `indexed ${indexing.parts} of ${indexing.of} parts` : "");
  await page.view?.changed?.(answer);
  countDrawing();
}

function switchTheme() {
  const to = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = to;
  try {
    localStorage.setItem("sparring-theme", to);
  } catch {
    // storage is refused: the choice lasts as long as the page
  }
  page.view?.themed?.();
}

document.querySelector("#theme").addEventListener("click", switchTheme);
document.querySelector("#help").addEventListener("click", help);
listen();
follow(() => show());
addEventListener("hashchange", () => {
  takeToken();
  show(true);
});
watch(changed, status);
show();
