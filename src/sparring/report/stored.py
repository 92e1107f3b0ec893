"""The plays that a run folder holds, read by step."""

from __future__ import annotations

from pathlib import Path

from sparring.errors import RunError
from sparring.rollout.credit_store import Credits, CreditStore, credits_of
from sparring.rollout.store import EpisodeStore
from sparring.run.folder import PLAYED, RunFolder
from sparring.types import Episode


class Stored:
    """The stored steps of a run folder, or the plays of people in it, whose numbers they are.

    Args:
        path: of the run.
        played: whether those of people are meant.

    Raises:
        RunError: there is no run, or nothing is stored.
    """

    def __init__(self, path: Path, played: bool = False) -> None:
        RunFolder.open(path)
        self.path, self.played = path, played
        within = path / PLAYED if played else path
        self._episodes = EpisodeStore(within / "episodes")
        self._credit = CreditStore(within / "credit")
        self.steps = self._episodes.steps()
        if not self.steps and played:
            raise RunError(
                f"Nobody has played in {path} yet; sit down with `sparring play {path} --web`."
            )
        if not self.steps:
            raise RunError(
                f"{path} has no stored episodes: store.every says which steps store theirs, and 0 "
                "is none."
            )

    def step(self, asked: int | None) -> int:
        """Return the step asked for, or the newest.

        Raises:
            RunError: this step is not stored.
        """
        if asked is None:
            return self.steps[-1]
        if asked not in self.steps and self.played:
            raise RunError(
                f"There is no play {asked} of people in {self.path}; they are numbered "
                f"{self.steps[0]} to {self.steps[-1]}."
            )
        if asked not in self.steps:
            near = sorted(sorted(self.steps, key=lambda step: abs(step - asked))[:6])
            known = ", ".join(map(str, near))
            raise RunError(
                f"Step {asked} of {self.path} is not stored. Near it are {known}; store.every "
                "says which are, and store.keep how many stay."
            )
        return asked

    def episodes(self, step: int) -> list[Episode]:
        """Return the episodes of a step.

        Raises:
            RunError: its part cannot be read.
        """
        found = [episode for _, episode in self._episodes.episodes(lambda number: number == step)]
        if not found:
            raise RunError(
                f"The episodes of step {step} in {self.path} cannot be read, or there are none; "
                "show another step."
            )
        return found

    def episode(self, step: int, asked: int | None) -> Episode:
        """Return an episode of a step by its number, or the first.

        Raises:
            RunError: the step has no such episode.
        """
        found = self.episodes(step)
        if asked is None:
            return found[0]
        by_number = {episode.episode_id: episode for episode in found}
        if asked not in by_number:
            numbers = f"{found[0].episode_id} to {found[-1].episode_id}"
            raise RunError(
                f"Step {step} has no episode {asked}; it has {len(found)}, with numbers "
                f"from {numbers}. See --list."
            )
        return by_number[asked]

    def credit(self, step: int, episode: Episode) -> Credits:
        """Return what was learned from the turns of an episode.

        Nothing in runs of before it was recorded.
        """
        return credits_of(self._credit.read(lambda number: number == step), episode.episode_id)
