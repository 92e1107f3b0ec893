/** Replays: the finder, or the episode that the address names. */

import { el } from "./dom.js";
import { openEpisode } from "./episode.js";
import { openFinder } from "./finder.js";

/** Open the view. */
export function open(root, context) {
  const current = { kind: null, view: null };

  async function show(now) {
    const kind = now.episode ? "episode" : "finder";
    if (kind !== current.kind) {
      current.view?.close?.();
      const place = el("div", {});
      root.replaceChildren(place);
      current.kind = kind;
      current.view = kind === "episode" ? openEpisode(place, context) : openFinder(place, context);
    }
    await current.view.show(now);
  }

  return {
    show,
    changed: (answer) => current.view?.changed?.(answer),
    themed: () => current.view?.themed?.(),
    close: () => current.view?.close?.(),
  };
}
