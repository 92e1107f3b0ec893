"""The stored episodes of a run folder, and an episode as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparring.core.errors import RunError
from sparring.core.records import Episode
from sparring.play.spec import turn_record
from sparring.play.store import Credits, CreditStore, EpisodeStore, credits_of
from sparring.run.folder import PLAYED_FOLDER, RunFolder


def episode_record(step: int, episode: Episode, credit: Credits) -> dict[str, Any]:
    """Return the stored record of an episode as a mapping.

    Args:
        step: the step of the episode.
        episode: the episode.
        credit: rows of credit of its replies.
    """
    return {
        "step": step,
        "episode": asdict(episode) | {"turns": [turn_record(turn) for turn in episode.turns]},
        "credit": list(credit.values()),
    }


def json_value(value: Any) -> Any:
    """Return a value for JSON: numbers that are not finite become null, sets become lists."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return [json_value(item) for item in sorted(value)]
    return [json_value(item) for item in value] if isinstance(value, list | tuple) else value


class StoredEpisodes:
    """Reads the stored episodes of a run folder by step, or its episodes with people by number.

    Args:
        path: the run folder.
        played: whether to read the episodes with people.

    Raises:
        RunError: there is no run, or nothing is stored.
    """

    def __init__(self, path: Path, played: bool = False) -> None:
        RunFolder.open(path)
        self.path, self.played = path, played
        folder = path / PLAYED_FOLDER if played else path
        self._episodes = EpisodeStore(folder / "episodes")
        self._credit = CreditStore(folder / "credit")
        self.steps = self._episodes.steps()
        if not self.steps and played:
            raise RunError(
                f"Nobody has played in {path} yet; play with `sparring play {path} --web`."
            )
        if not self.steps:
            raise RunError(
                f"{path} has no stored episodes: a run stores episodes of every store.every-th "
                "step, and of no step if store.every is 0; train it with store.every=1."
            )

    def step(self, number: int | None) -> int:
        """Check that a step is stored, and return it; None means the newest step.

        Raises:
            RunError: this step is not stored.
        """
        if number is None:
            return self.steps[-1]
        if number not in self.steps and self.played:
            raise RunError(
                f"{self.path} has no episode {number} with a person; these are numbered "
                f"{self.steps[0]} to {self.steps[-1]}."
            )
        if number not in self.steps:
            nearest_steps = sorted(sorted(self.steps, key=lambda step: abs(step - number))[:6])
            step_list = ", ".join(map(str, nearest_steps))
            raise RunError(
                f"Step {number} of {self.path} is not stored. The nearest are {step_list}; "
                "store.every sets which steps are stored, and store.keep how many."
            )
        return number

    def episodes(self, step: int) -> list[Episode]:
        """Return the episodes of a step.

        Raises:
            RunError: the stored file of the step cannot be read.
        """
        episodes = [episode for _, episode in self._episodes.episodes(lambda other: other == step)]
        if not episodes:
            raise RunError(
                f"The episodes of step {step} in {self.path} cannot be read, or there are none; "
                "show another step."
            )
        return episodes

    def episode(self, step: int, number: int | None) -> Episode:
        """Return an episode of a step by its number, or the first.

        Raises:
            RunError: the step does not have this episode.
        """
        episodes = self.episodes(step)
        if number is None:
            return episodes[0]
        by_number = {episode.episode_id: episode for episode in episodes}
        if number not in by_number:
            numbers = f"{episodes[0].episode_id} to {episodes[-1].episode_id}"
            raise RunError(
                f"Step {step} has no episode {number}; it has {len(episodes)}, with numbers "
                f"from {numbers}. See --list."
            )
        return by_number[number]

    def credit(self, step: int, episode: Episode) -> Credits:
        """Return the rows of credit of an episode; empty in runs of older versions."""
        return credits_of(self._credit.read(lambda other: other == step), episode.episode_id)
