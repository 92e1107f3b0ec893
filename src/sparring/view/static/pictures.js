/** Pictures of boards, fetched with the token and shown from memory. */

import { get } from "./api.js";

const MAX_PICTURES = 60; // largest number of pictures in memory

/** Return the run in an address: its number, with "-people" for episodes that people played. */
export function runOf({ run, people }) {
  return people ? `${run}-people` : run;
}

/** Return the address of an episode's data. */
export function addressOf({ run, people, step, episode }) {
  return `/api/runs/${runOf({ run, people })}/episodes/${step}/${episode}`;
}

/** Return an address at which an <img> finds a picture; nothing in it can run there. */
function addressOfSvg(svg) {
  return URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
}

/** The pictures seen last, as addresses that an <img> can show. */
export class Pictures {
  #cache = new Map();

  /**
   * Return the picture of the position before a turn, or null if there is none.
   * @param {Object} answer the episode
   * @param {number} index of the turn; the number of turns means the end
   */
  async at(answer, index) {
    if (!answer.pictures) return null;
    const theme = document.documentElement.dataset.theme;
    const path = `${addressOf(answer)}/board/${index}`;
    const key = `${path} ${answer.seat} ${theme}`;
    if (!this.#cache.has(key)) {
      const answerPicture = await get(path, { seat: answer.seat, theme }).catch(() => null);
      const address = answerPicture?.svg && addressOfSvg(answerPicture.svg);
      this.#store(key, answerPicture && { ...answerPicture, address });
    }
    return this.#cache.get(key);
  }

  /** Return the picture before a turn and, if the turn is the last, the picture at the end. */
  async around(answer, index) {
    const isLast = index === answer.turns.length - 1;
    return Promise.all([this.at(answer, index), isLast ? this.at(answer, index + 1) : null]);
  }

  #store(key, picture) {
    this.#cache.set(key, picture);
    if (this.#cache.size <= MAX_PICTURES) return;
    const [oldest, removed] = this.#cache.entries().next().value;
    if (removed?.address) URL.revokeObjectURL(removed.address);
    this.#cache.delete(oldest);
  }

  /** Release all pictures. */
  close() {
    for (const picture of this.#cache.values())
      if (picture?.address) URL.revokeObjectURL(picture.address);
    this.#cache.clear();
  }
}
