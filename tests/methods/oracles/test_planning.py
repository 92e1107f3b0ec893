"""Decisions of a lead judged by planning ahead: by hand, who is judged, what is refused, in rewards, runs and matches."""

import pytest

from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.core.errors import ConfigError, OracleError
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.environments.dag_search import Dag, World
from sparring.environments.dag_search.solver import dag_search as solver
from sparring.environments.situation import Situation, decision_of
from sparring.measure.matches import play_matches
from sparring.measure.regret import Judge
from sparring.methods.oracles.base import hindrance, verdicts
from sparring.play.players.scheduler import scheduler
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

# 3 takes long and needs 1, which is short; 2 is long: 1 goes first and alone
WORLD = World((("ardan",), ("bemir", "cosol", "dutek", "elvor"), ("fizin", "godan", "humir", "artek")), ("red", "blue", "gold"), ((), (), (0,)))


def made():
    return registry.bind("oracles", "planning")()


def asked():
    """Return the game and its play in the world above, at the lead's first decision."""
    game = make_game("dag_search", options={"tasks": 3, "workers": 3, "pages": 4})
    return game, Dag(game, WORLD)


def test_by_hand():
    game, play = asked()
    (found,) = verdicts(made(), [decision_of(game, play, 0)])
    assert found.actions == ("call 1", "call 2", "call 3") and found.best == {"call 1"}
    assert found.values == (1.0, pytest.approx(2 / 3), pytest.approx(2 / 3))
    assert (found.certainty, found.bound, found.entropy) == (1.0, 0.0, None)


def test_workers_are_not_judged_and_the_play_is_left_alone():
    game, play = asked()
    play.step({0: "call 2"})
    before = dict(vars(play))
    assert made().judge([decision_of(game, play, seat) for seat in (1, 2)]) == [None, None]
    assert vars(play) == before and made().judge([]) == []


def test_what_is_refused():
    game, play = asked()
    play.ended = True
    with pytest.raises(OracleError, match="finished"):
        made().judge([decision_of(game, play, 0)])
    kuhn = make_game("kuhn_poker")
    assert "nobody plans ahead" in made().covers(kuhn) and "dag_search" in made().covers(kuhn)
    with pytest.raises(OracleError, match="kuhn_poker"):
        made().judge([decision_of(kuhn, kuhn.reset(Stream.from_seed(0)), 0)])
    wide = make_game("wide_search")
    assert hindrance(made(), wide) and hindrance(registry.bind("oracles", "minimax")(), game).startswith("it has no rules")
    assert not hindrance(made(), game)
    with pytest.raises(OracleError, match="judge plays of dag_search"):
        solver(Situation(wide, wide.reset(Stream.from_seed(0)), 0))


def test_a_state_of_openspiels_is_asked_about_as_it_is():
    kuhn = make_game("kuhn_poker")
    state = kuhn.reset(Stream.from_seed(0))
    assert decision_of(kuhn, state, 0) is state
    game, play = asked()
    found = decision_of(game, play, 0, 7)
    assert (found.seat, found.plies, found.done, found.legal_actions()) == (0, 7, False, ("call 1", "call 2", "call 3"))


@pytest.mark.parametrize(("player", "optimal"), [(scheduler(), 1.0), (scheduler(width=4), 0.0)])
def test_it_measures_a_lead_in_matches(player, optimal):
    """In a chain the best schedule has no regret, and four workers are never best while steps are short."""
    game = make_game("dag_search", options={"shape": "chain", "workers": 4})
    report = play_matches(game, player, scheduler(), games_per_seat=4, stream=Stream.from_seed(0), judge=Judge(oracle=made()))
    lead, worker = report.seats[0].regret, report.seats[1].regret
    assert lead.judged == lead.turns > 0 and worker.judged == 0
    assert lead.optimal.mean == optimal or (optimal == 0.0 and lead.optimal.mean < 0.7)
    assert (lead.regret.mean == 0.0) == (optimal == 1.0)


def configured(environment, **changes):
    """Return a small configuration of one environment whose oracle plans ahead."""
    section = {**environment, "illegal": {"rule": "random"}, "oracle": {"name": "planning"}}
    model = {"hidden_size": 8, "layers": 1, "heads": 1, "context": 256}
    return resolve({"environments": [section], "steps": 1, "threads": 1, "rollout": {"games_per_step": 8}, "model": model, **changes})


def test_it_judges_a_run_whose_rewards_read_it():
    config = configured(
        {"name": "dag_search", "options": {"tasks": 3, "workers": 2, "worlds": 50}}, rewards=[{"name": "best_action"}], reorder_outcomes=True
    )
    engine = LocalEngine(config)
    methods = Methods.of(config, [game for game, _ in engine.environments])
    played = play_round(config, engine, methods, RunState())
    turns = [turn for episode in played.episodes for turn in episode.turns]
    assert all((turn.verdict is None) == (turn.seat != 0) for turn in turns)
    assert all(("best_action" in turn.rewards) == (turn.seat == 0) for turn in turns)


def test_a_run_names_it_for_no_other_environment():
    config = configured({"name": "wide_search"})
    with pytest.raises(ConfigError, match="'wide_search' has the oracle 'planning', which cannot judge it"):
        Methods.of(config, [game for game, _ in LocalEngine(config).environments])
