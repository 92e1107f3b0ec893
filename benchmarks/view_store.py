"""A store of random episodes of Kuhn poker with every column filled, for the viewer's benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from common import self_play_specs

from sparring.core.records import Episode, Segment, Turn, Verdict
from sparring.environments.catalogue import make_game
from sparring.play.players.random import random
from sparring.play.rollout import play
from sparring.play.store import CREDIT_COLUMNS, CREDIT_SCHEMA, CreditStore, EpisodeStore

NUM_DISTINCT = 2048  # distinct episodes; the store repeats them with other ids and values
CONFIG = (
    "name: random-kuhn\nseed: 0\nsteps: {steps}\nenvironments:\n- name: kuhn_poker\n"
    "rollout:\n  games_per_step: {each}\n"
)
GAMES = (
    "kuhn_poker",
    "kuhn_short",
    "kuhn_long",
)  # several labels, so that a filter by environment has a choice


def write(folder: Path, episodes: int, per_step: int) -> None:
    """Write a run with this number of episodes, ``per_step`` of them in each step."""
    folder.mkdir(parents=True)
    steps = episodes // per_step
    (folder / "sparring-run.json").write_text('{"format": 1}')
    (folder / "config.yaml").write_text(CONFIG.format(steps=steps, per_step=per_step))
    plays, draws = distinct_episodes(), np.random.default_rng(0)
    store, credit = EpisodeStore(folder / "episodes"), CreditStore(folder / "credit")
    for step in range(1, steps + 1):
        step_episodes = list(episodes_of_step(plays, step, per_step, draws))
        store.append(step, step_episodes)
        credit.put(step, CREDIT_COLUMNS.to_bytes(credit_table(step, step_episodes, draws)))
        line = {"step": step, "loss": float(draws.normal()), "legal_rate": float(draws.uniform())}
        with open(folder / "metrics.jsonl", "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def distinct_episodes() -> list[Episode]:
    """Return random episodes with tokens and verdicts."""
    game = make_game("kuhn_poker")
    specs = self_play_specs(game, NUM_DISTINCT, "random")
    return [fill_columns(episode) for episode in play(specs, {"random": random()})]


def fill_columns(episode: Episode) -> Episode:
    """Return an episode whose turns have the columns of a language model's turns."""
    return replace(episode, turns=tuple(map(_turn, episode.turns)))


def _turn(turn: Turn) -> Turn:
    """Return a turn with tokens and a verdict."""
    values = tuple(0.5 - index for index in range(len(turn.legal_actions)))
    prompt = Segment(kind="prompt", ids=(1, 5, 7, 9, 3))
    segment = Segment(kind="sampled", ids=(13, 2), logprobs=(-0.7, -0.1), weights_version=3)
    verdict = Verdict(
        actions=turn.legal_actions, values=values, best=frozenset(turn.legal_actions[:1])
    )
    return turn._replace(
        segments=(prompt, segment), verdict=verdict, prompt=f"kuhn {turn.view}", weights_version=3
    )


def episodes_of_step(
    plays: Sequence[Episode], step: int, per_step: int, draws: np.random.Generator
) -> Iterator[Episode]:
    """Yield the episodes of a step; one in twenty has an illegal reply."""
    for index, place in enumerate(draws.integers(len(plays), size=per_step).tolist()):
        play, identity = plays[place], step * per_step + index
        turns = play.turns
        if draws.uniform() < 0.05:
            turns = (*turns[:-1], turns[-1]._replace(event="illegal", action=None, reply="fold"))
        yield replace(
            play, episode_id=identity, group_id=identity, turns=turns, game=GAMES[identity % 3]
        )


def credit_table(step: int, episodes: Sequence[Episode], draws: np.random.Generator) -> pa.Table:
    """Return rows of credit for every turn."""
    turns = [(episode, turn) for episode in episodes for turn in episode.turns]
    advantages = draws.normal(size=len(turns)).tolist()
    rows = [
        {
            **dict.fromkeys(CREDIT_SCHEMA.names),
            "step": step,
            "episode_id": episode.episode_id,
            "seat": turn.seat,
            "turn_index": turn.turn_index,
            "candidate": 0,
            "selected": True,
            "replayed": False,
            "reward": episode.returns[turn.seat],
            "advantage": advantage,
            "baseline": 0.1,
            "entropies": [0.6, 0.1],
        }
        for (episode, turn), advantage in zip(turns, advantages, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=CREDIT_SCHEMA)
