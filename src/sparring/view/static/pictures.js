/** Pictures of boards: fetched with the token, shown from memory. */

import { blob } from "./api.js";

const KEPT = 60; // pictures kept

/** Return the address of a play's answers. */
export function addressOf({ run, step, episode }) {
  return `/api/runs/${run}/episodes/${step}/${episode}`;
}

/** The pictures seen last, as addresses that an <img> can show. */
export class Pictures {
  #held = new Map();

  /**
   * Return the picture of a turn, or null where there is none.
   * @param {Object} answer the episode
   * @param {Object} turn one of its turns
   */
  async of(answer, turn) {
    if (!answer.pictures || turn.hidden) return null;
    const theme = document.documentElement.dataset.theme;
    const path = `${addressOf(answer)}/board/${turn.index}.svg`;
    const key = `${path} ${answer.seat} ${theme}`;
    if (!this.#held.has(key)) {
      const file = await blob(path, { seat: answer.seat, theme }).catch(() => null);
      this.#keep(key, file ? URL.createObjectURL(file) : null);
    }
    const at = this.#held.get(key);
    return at ? { address: at, said: turn.view ? `board: ${turn.view}` : "board" } : null;
  }

  #keep(key, at) {
    this.#held.set(key, at);
    if (this.#held.size <= KEPT) return;
    const [oldest, gone] = this.#held.entries().next().value;
    if (gone) URL.revokeObjectURL(gone);
    this.#held.delete(oldest);
  }

  /** Forget all. */
  close() {
    for (const at of this.#held.values()) if (at) URL.revokeObjectURL(at);
    this.#held.clear();
  }
}
