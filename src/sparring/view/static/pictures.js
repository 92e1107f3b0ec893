/** Pictures of boards: fetched with the token, shown from memory. */

import { get } from "./api.js";

const KEPT = 60; // pictures kept

/** Return the run in an address: its number, or that of the plays of people against it. */
export function runOf({ run, people }) {
  return people ? `${run}-people` : run;
}

/** Return the address of a play's answers. */
export function addressOf({ run, people, step, episode }) {
  return `/api/runs/${runOf({ run, people })}/episodes/${step}/${episode}`;
}

/** Return an address at which an <img> finds a picture; nothing in it can run there. */
function shownFrom(svg) {
  return URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
}

/** The pictures seen last, as addresses that an <img> can show. */
export class Pictures {
  #held = new Map();

  /**
   * Return the picture of the position before a turn, or null where there is none.
   * @param {Object} answer the episode
   * @param {number} index of the turn; the number of turns stands for the end
   */
  async at(answer, index) {
    if (!answer.pictures) return null;
    const theme = document.documentElement.dataset.theme;
    const path = `${addressOf(answer)}/board/${index}`;
    const key = `${path} ${answer.seat} ${theme}`;
    if (!this.#held.has(key)) {
      const found = await get(path, { seat: answer.seat, theme }).catch(() => null);
      this.#keep(key, found && { ...found, address: found.svg && shownFrom(found.svg) });
    }
    return this.#held.get(key);
  }

  /** Return the picture before a turn, and the one at the end where the turn is the last. */
  async around(answer, index) {
    const ends = index === answer.turns.length - 1;
    return Promise.all([this.at(answer, index), ends ? this.at(answer, index + 1) : null]);
  }

  #keep(key, picture) {
    this.#held.set(key, picture);
    if (this.#held.size <= KEPT) return;
    const [oldest, gone] = this.#held.entries().next().value;
    if (gone?.address) URL.revokeObjectURL(gone.address);
    this.#held.delete(oldest);
  }

  /** Forget all. */
  close() {
    for (const one of this.#held.values()) if (one?.address) URL.revokeObjectURL(one.address);
    this.#held.clear();
  }
}
