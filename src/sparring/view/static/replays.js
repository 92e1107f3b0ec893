/** Replays: the finder, or the play that the address names. */

import { el } from "./dom.js";
import { openEpisode } from "./episode.js";
import { openFinder } from "./finder.js";

/** Open the view. */
export function open(root, context) {
  const held = { kind: null, view: null };

  async function show(now) {
    const kind = now.episode ? "episode" : "finder";
    if (kind !== held.kind) {
      held.view?.close?.();
      const place = el("div", {});
      root.replaceChildren(place);
      held.kind = kind;
      held.view = kind === "episode" ? openEpisode(place, context) : openFinder(place, context);
    }
    await held.view.show(now);
  }

  return {
    show,
    changed: (answer) => held.view?.changed?.(answer),
    themed: () => held.view?.themed?.(),
    close: () => held.view?.close?.(),
  };
}
