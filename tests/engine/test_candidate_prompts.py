"""What several replies to one prompt cost: prompts are computed once for all of them."""

import pytest

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.engine.local import LocalEngine
from sparring.engine.protocol import Judging, rewards_of
from sparring.league.seating import starts
from sparring.methods.oracles.judge import configured_oracles
from sparring.models.samplers.prefix_cache import Prefill

SOKOBAN = {"name": "sokoban", "options": {"rooms": 1000}, "oracle": {"name": "graded"}}
SUDOKU = {"name": "sudoku", "options": {"blanks": 4, "puzzles": 1000, "wrong": "continues"}, "oracle": {"name": "constraint", "lost": "solution"}}


def played(count, environment, context, monkeypatch):
    counted, inside = [0], [False]
    contexts, computed = Prefill.contexts, Prefill.computed

    def watched(self, *given, **more):
        inside[0] = True
        try:
            return contexts(self, *given, **more)
        finally:
            inside[0] = False

    def adding(self, counts):
        counted[0] += sum(counts) if inside[0] else 0
        return computed(self, counts)

    config = resolve(
        {
            "threads": 1, "steps": 1, "environments": [{**environment, "illegal": {"rule": "random"}}], "rewards": [{"name": "best_action"}],
            "reorder_outcomes": True, "credit": {"name": "vpr", "baseline": "candidates" if count > 1 else "turn_index"},
            "context": {"name": context}, "rollout": {"games_per_step": 32, "candidates": {"count": count, "commit": "random"}},
        }
    )  # fmt: skip
    engine = LocalEngine(config)
    games = [game for game, _ in engine.environments]
    specs = starts(
        0, games=engine.environments, rollout=config.rollout, matchmaker=bind("league.matchmakers", "mirror"), members=(), root=engine.root, progress=0.0
    )
    judging = Judging.of(config, games, 0.0, oracles=configured_oracles(config.environments, games), rewards=rewards_of(config))
    with monkeypatch.context() as patch:
        patch.setattr(Prefill, "contexts", watched)
        patch.setattr(Prefill, "computed", adding)
        found = engine.play(specs, judging).episodes
    return found, counted[0]


@pytest.mark.parametrize(("environment", "context"), [(SUDOKU, "full"), (SOKOBAN, "full"), (SOKOBAN, "markov")])
def test_four_replies_compute_the_prompts_of_one(environment, context, monkeypatch):
    (one, few), (four, many) = (played(count, environment, context, monkeypatch) for count in (1, 4))
    assert [[turn.state_key for turn in episode.turns] for episode in one] == [[turn.state_key for turn in episode.turns] for episode in four]
    assert all(len(turn.candidates) == 3 for episode in four for turn in episode.turns if turn.event != "unsent")
    assert few > 0 and many <= 1.05 * few, (few, many)
