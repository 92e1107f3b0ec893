"""One round: what selection leaves out, what the estimator is given, and what happens when nothing is left."""

import numpy as np
import pytest

from sparring import registry
from sparring.config import resolve
from sparring.engine.local import LocalEngine
from sparring.errors import RolloutError
from sparring.run.step import Methods, play_round

LOSSES = [{"name": "ppo_clip"}, {"name": "value_loss"}]


def setting(**changes):
    base = {"games": [{"name": "kuhn_poker"}], "steps": 4, "threads": 1, "rollout": {"games_per_step": 16, "group_size": 4}}
    return resolve({**base, "model": {"hidden_size": 8, "layers": 1, "heads": 1}, **changes})


def methods(config, **changes):
    usual = Methods.of(config)
    names = ("matchmaker", "selection", "credit")
    return Methods(**{name: changes.get(name, getattr(usual, name)) for name in names})


def weights(engine):
    return {name: tensor.clone() for name, tensor in engine.model.tensors().items()}


@pytest.mark.parametrize("name", registry.names("credit"))
def test_a_step_of_which_selection_leaves_nothing_changes_no_weights(name):
    config = setting(credit={"name": name}, losses=LOSSES if name == "gae" else LOSSES[:1])
    engine = LocalEngine(config)
    before = weights(engine)
    outcome = play_round(config, engine, methods(config, selection=lambda turns, progress: np.zeros(len(turns.reward), dtype=bool)), 0, {})
    assert all((tensor == before[key]).all() for key, tensor in weights(engine).items())
    assert (outcome.metrics["kept_share"], outcome.metrics["advantage_std"], len(outcome.episodes)) == (0.0, 0.0, 16)


def test_the_estimator_sees_what_selection_leaves_and_the_figures_see_all():
    config, seen = setting(), []
    engine, usual = LocalEngine(config), Methods.of(config)

    def selection(turns, progress):
        return turns.episode < 6

    def credit(turns, state, progress):
        seen.append((set(turns.episode.tolist()), dict(state), progress))
        return usual.credit(turns, {"count": state.get("count", 0) + 1}, progress=progress)

    for step, state in ((0, {}), (1, {"count": 1})):
        outcome = play_round(config, engine, methods(config, selection=selection, credit=credit), step, state)
    assert seen[0] == (set(range(6)), {}, 0.0)
    assert seen[1] == (set(), {"count": 1}, 0.25)  # the episodes of step 1 are numbered from 16
    assert outcome.credit_state == {"count": 2}
    assert [episode.episode_id for episode in outcome.episodes] == list(range(16, 32))


def test_where_no_game_can_be_played_it_is_an_error(monkeypatch):
    config = setting()
    engine = LocalEngine(config)
    monkeypatch.setattr(engine, "play", lambda specs, counts: [])
    with pytest.raises(RolloutError, match="the log says why"):
        play_round(config, engine, Methods.of(config), 0, {})


def test_games_that_fail_are_counted_and_their_groups_left_out(monkeypatch):
    config = setting(rollout={"games_per_step": 16, "group_size": 4, "retries": 1})
    engine = LocalEngine(config)
    game, _ = engine.games[0]
    usual, calls = game.reset, [0]

    def sometimes(*args, **kwargs):
        state = usual(*args, **kwargs)
        calls[0] += 1
        if calls[0] == 3 or calls[0] > 16:  # the third game, and whatever begins anew after that
            state._position = None
        return state

    monkeypatch.setattr(type(game), "reset", lambda self, *args, **kwargs: sometimes(*args, **kwargs))
    outcome = play_round(config, engine, Methods.of(config), 0, {})
    assert (outcome.metrics["retried_games"], outcome.metrics["dropped_groups"]) == (1.0, 1.0)
    assert [episode.group_id for episode in outcome.episodes] == [1] * 4 + [2] * 4 + [3] * 4
