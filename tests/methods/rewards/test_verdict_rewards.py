import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.methods.small_runs import config_of, play_step

from sparring.config.plugins import registry
from sparring.config.recipe import to_yaml
from sparring.core.errors import ConfigError
from sparring.core.records import Verdict
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.methods.rewards.action_rank import action_rank
from sparring.methods.rewards.best_action import best_action
from sparring.methods.rewards.graded_action import graded_action
from sparring.methods.rewards.information_gain import information_gain
from sparring.methods.rewards.playout_value import playout_value
from sparring.methods.rewards.regret import regret
from sparring.play.store import EpisodeStore
from sparring.run.events import read_lines
from sparring.run.folder import RunFolder
from sparring.run.loop import train

VALUES = (1.0, 0.0, 0.0, -1.0, 0.5)


@pytest.mark.parametrize(
    ("ties", "grades"),
    [("level", (1.0, 1 / 3, 1 / 3, 0.0, 2 / 3)), ("mean", (1.0, 0.375, 0.375, 0.0, 0.75))],
    ids=["level", "mean"],
)
def test_action_rank_by_hand(make_judged_episode, ties, grades):
    assert action_rank(
        make_judged_episode([(0, "ok", VALUES, chosen) for chosen in range(5)]), ties=ties
    ) == pytest.approx(grades)


@pytest.mark.parametrize(("ties", "grade_of_equals"), [("level", 1.0), ("mean", 0.5)])
def test_equal_values_one_action_illegal_replies_and_abstentions(make_judged_episode, ties, grade_of_equals):
    turns = [
        (0, "ok", (0.5, 0.5, 0.5 + 1e-12), 0),
        (1, "ok", (3.0,), 0),
        (0, "illegal", (0.0, 0.0), 0),
        (1, "ok", None, 0),
    ]
    assert action_rank(make_judged_episode(turns), ties=ties) == (grade_of_equals, grade_of_equals, 0.0, None)
    assert action_rank(make_judged_episode([(0, "unparsable", VALUES, 0)]), ties=ties) == (0.0,)


LISTS = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=9)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=LISTS)
def test_both_tie_rules_equal_counted_wins(make_judged_episode, values):
    def grades(ties, given_values):
        return action_rank(
            make_judged_episode([(0, "ok", tuple(given_values), chosen) for chosen in range(len(values))]), ties=ties
        )

    levels = sorted(set(values))
    assert grades("level", values) == pytest.approx(
        [levels.index(v) / (len(levels) - 1) if len(levels) > 1 else 1.0 for v in values]
    )
    other_values = [[o for index, o in enumerate(values) if index != skipped] for skipped in range(len(values))]
    wins = [[(v > o) + 0.5 * (v == o) for o in other_row] for v, other_row in zip(values, other_values, strict=True)]
    expected = [sum(scores) / len(scores) if scores else 0.5 for scores in wins]
    assert grades("mean", values) == pytest.approx(expected)
    assert sum(grades("mean", values)) == pytest.approx(len(values) / 2)
    for ties in ("level", "mean"):
        assert grades(ties, [v**3 + 7 for v in values]) == grades(ties, values)  # only the order counts


@pytest.mark.parametrize(("name", "option"), [("action_rank", "ties"), ("regret", "scale")])
def test_options_are_checked(name, option):
    with pytest.raises(ConfigError, match=f"option '{option}'"):
        registry.bind("rewards", name, {option: "range"})


TURNS_OF_BEST_ACTION = [(0, "ok", 2, 0.0), (1, "illegal", 2, 0.0), (0, "ok", 2, 0.0), (1, "ok", 2, 0.0)]


def make_judged_episode(episode, verdicts):
    return replace(
        episode,
        turns=tuple(turn._replace(verdict=verdict) for turn, verdict in zip(episode.turns, verdicts, strict=True)),
    )


def verdict(*best_actions):
    return Verdict(
        actions=("bet", "pass"),
        values=tuple(float(action in best_actions) for action in ("bet", "pass")),
        best=frozenset(best_actions),
    )


def test_best_action_pays_right_wrong_illegal_and_unjudged_turns(make_episode):
    episode = make_judged_episode(
        make_episode(TURNS_OF_BEST_ACTION), [verdict("bet"), verdict("bet"), verdict("pass"), None]
    )
    assert best_action(episode) == (1.0, 0.0, 0.0, None)
    assert best_action(episode, right=0.5, wrong=-2.0) == (0.5, -2.0, -2.0, None)
    assert best_action(make_judged_episode(make_episode(TURNS_OF_BEST_ACTION), [verdict("bet", "pass")] * 4)) == (
        1.0,
        0.0,
        1.0,
        1.0,
    )


TIC_TAC_TOE = {"name": "tic_tac_toe", "illegal": {"rule": "random"}, "oracle": {"name": "minimax"}}
BEST_ACTION = {"rollout": {"games_per_step": 8}, "rewards": [{"name": "best_action"}], "outcome_weight": 0.0}


def test_a_run_rewards_reports_and_stores_the_verdicts_of_the_oracle(tmp_path):
    evaluation = {"every": 2, "exact": False}
    config = config_of(TIC_TAC_TOE, steps=2, evaluation=evaluation, store={"every": 1}, **BEST_ACTION)
    with RunFolder.create(tmp_path / "run", to_yaml(config)) as folder:
        assert train(config, LocalEngine(config), folder).finished
    for line in read_lines(tmp_path / "run" / "metrics.jsonl"):
        metrics = line.get("metrics", line)
        assert metrics["reward/best_action"] == pytest.approx(metrics["optimal_rate/tic_tac_toe"])
        assert metrics["judged_rate/tic_tac_toe"] == 1 and metrics["regret/tic_tac_toe"] > 0
    turns = [turn for _, episode in EpisodeStore(tmp_path / "run" / "episodes").episodes() for turn in episode.turns]
    assert turns and all(turn.verdict.actions == turn.legal_actions for turn in turns)
    assert {turn.rewards["best_action"] for turn in turns} == {0.0, 1.0}
    assert {turn.rewards["game"] for turn in turns} == {0.0}  # outcomes are paid with weight 0


def test_verdict_rewards_without_an_oracle_are_refused():
    with pytest.raises(
        ConfigError, match=r"'best_action' needs an oracle.*'tic_tac_toe' has none.*oracle: \{name: minimax\}"
    ):
        config_of({"name": "tic_tac_toe"}, **BEST_ACTION)
    assert config_of(TIC_TAC_TOE, {"name": "kuhn_poker", "weight": 0}, **BEST_ACTION).environments[1].oracle is None
    with pytest.raises(ConfigError, match="reorder_outcomes: true"):
        config_of(TIC_TAC_TOE, **BEST_ACTION, reorder_outcomes=False)


GRADES = Verdict(actions=("a", "b", "c"), values=(2.0, 0.5, -1.0), best=frozenset("a"))
OUTCOMES = [("a", "ok"), ("b", "ok"), ("c", "ok"), (None, "illegal"), (None, "unparsable")]


@pytest.mark.parametrize(
    ("options", "prices"), [({}, (-2.0, -2.0)), ({"illegal": -3.0, "unparsable": -4.0}, (-3.0, -4.0))]
)
def test_graded_action_by_hand(make_episode, options, prices):
    episode = make_episode([(0, event, 1, 0.0) for _, event in [*OUTCOMES, ("a", "ok")]])
    turns = [
        turn._replace(action=action, verdict=GRADES) for turn, (action, _) in zip(episode.turns, OUTCOMES, strict=False)
    ]
    assert graded_action(replace(episode, turns=(*turns, episode.turns[-1])), **options) == (
        2.0,
        0.5,
        -1.0,
        *prices,
        None,
    )


TIC, KUHN = make_game("tic_tac_toe"), make_game("kuhn_poker")
TURNS_OF_REGRET = [
    (0, "ok", (1.0, 0.5, -1.0), 1),
    (1, "illegal", (1.0, 0.0), 0),
    (0, "ok", (0.0, 0.0), 1),
    (1, "ok", None, 0),
    (0, "ok", (0.0, 1.0), 1),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (-0.5, -1.0, 0.0, None, 0.0)),
        ({"scale": "state"}, (-0.25, -1.0, 0.0, None, 0.0)),
        ({"scale": "game"}, (-0.25, -0.5, 0.0, None, 0.0)),
        ({"positive": True}, (0.5, 0.0, 1.0, None, 1.0)),
        ({"positive": True, "scale": "state"}, (0.75, 0.0, 1.0, None, 1.0)),
        ({"positive": True, "scale": "game"}, (0.75, 0.5, 1.0, None, 1.0)),
    ],
    ids=["units", "state", "game", "positive", "positive-state", "positive-game"],
)
def test_regret_by_hand(make_judged_episode, options, expected):
    assert regret(make_judged_episode(TURNS_OF_REGRET), TIC, **options) == expected


def test_scale_game_uses_the_range_of_the_games_payoffs(make_judged_episode):
    assert regret(make_judged_episode([(0, "ok", (2.0, 0.0), 1)]), KUHN, scale="game") == (
        -0.5,
    )  # Kuhn poker pays from -2 to 2


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=9), data=st.data())
def test_regret_is_within_its_range_and_independent_of_scale(make_judged_episode, values, data):
    action_index = data.draw(st.integers(0, len(values) - 1))

    def regret_of(action_values, **options):
        return regret(make_judged_episode([(0, "ok", tuple(action_values), action_index)]), TIC, **options)[0]

    assert regret_of(values) == values[action_index] - max(values)
    share = regret_of(values, scale="state", positive=True)
    assert 0 <= share <= 1
    assert (share == 1) or values[action_index] < max(values)
    assert regret_of([4 * value for value in values], scale="state", positive=True) == pytest.approx(share, abs=1e-12)


def test_a_run_pays_the_regret_that_it_reports():
    rewards = [{"name": "regret", "scale": "game"}]
    metrics = play_step(config_of(TIC_TAC_TOE, rollout={"games_per_step": 8}, rewards=rewards)).metrics
    assert metrics["reward/regret"] == pytest.approx(-metrics["regret/tic_tac_toe"] / 2)
    assert metrics["reward/regret"] < 0


AB = (0.0, 1.0)


def test_information_gain_by_hand_over_one_seats_turns(make_judged_episode):
    turns = [
        (0, "ok", AB, 0, 2.0),
        (1, "ok", AB, 0, 0.5),
        (0, "ok", AB, 1, 0.75),
        (1, "ok", AB, 0, 0.75),
        (0, "ok", AB, 1, 0.0),
    ]
    assert information_gain(make_judged_episode(turns)) == (
        1.25,
        -0.25,
        0.75,
        None,
        None,
    )  # the entropy of the second seat rose


def test_gain_is_none_without_entropies_and_0_for_illegal_replies(make_judged_episode):
    rows_without_entropy = [
        (0, "ok", AB, 0, 2.0),
        (0, "ok", AB, 0),
        (0, "ok", AB, 0, 1.0),
        (0, "ok", None, 0),
        (0, "ok", AB, 0, 0.5),
    ]
    assert information_gain(make_judged_episode(rows_without_entropy)) == (None, None, None, None, None)
    rows_with_illegal_reply = [
        (0, "illegal", AB, 0, 2.0),
        (0, "unparsable", AB, 0, 1.0),
        (0, "ok", AB, 0, 1.0),
        (0, "illegal", AB, 0, 0.25),
    ]
    assert information_gain(make_judged_episode(rows_with_illegal_reply)) == (
        0.0,
        0.0,
        0.75,
        0.0,
    )  # the environment may have replaced it by a random action
    assert information_gain(make_judged_episode([(0, "illegal", AB, 0)])) == (None,)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entropies=st.lists(st.floats(0, 20), min_size=1, max_size=12))
def test_gains_sum_to_the_lost_entropy(make_judged_episode, entropies):
    gains = information_gain(make_judged_episode([(0, "ok", AB, 0, entropy) for entropy in entropies]))
    assert gains[-1] is None
    assert sum(gains[:-1]) == pytest.approx(entropies[0] - entropies[-1], abs=1e-9)


def test_a_run_pays_information_gain_and_last_turns_abstain():
    options = {"rows": 3, "columns": 3, "mines": 1}
    environment = {
        "name": "minesweeper",
        "options": options,
        "illegal": {"rule": "random"},
        "oracle": {"name": "posterior"},
    }
    outcome = play_step(config_of(environment, rollout={"games_per_step": 16}, rewards=[{"name": "information_gain"}]))
    gains, num_unknown = [], 0
    for episode in outcome.episodes:
        assert episode.turns[0].verdict.entropy <= math.log(9) + 1e-9
        for turn, next_turn in zip(episode.turns, (*episode.turns[1:], None), strict=True):
            gain = turn.rewards.get("information_gain")
            if turn.event == "ok" and next_turn is not None:
                assert gain == pytest.approx(turn.verdict.entropy - next_turn.verdict.entropy)
                gains.append(gain)
            num_unknown += gain is None
    assert gains and max(gains) > 0 and num_unknown > 0
    turns = sum(len(episode.turns) for episode in outcome.episodes)
    assert outcome.metrics["abstained/information_gain"] == pytest.approx(num_unknown / turns)


PLAYOUT_VALUE = {
    "steps": 2,
    "rollout": {"games_per_step": 8, "group_size": 4, "playouts": 2},
    "rewards": [{"name": "playout_value"}],
    "outcome_weight": 0.0,
    "credit": {"name": "vpr", "process": "playout_value"},
}


def test_playout_value_by_hand(make_episode):
    episode = make_episode([(0, "ok", 2, 0.0), (1, "ok", 2, 0.0)])
    assert playout_value(episode) == (None, None)
    assert playout_value(replace(episode, turns=(episode.turns[0]._replace(playout=0.25), episode.turns[1]))) == (
        0.25,
        None,
    )


def test_a_run_learns_from_playout_values():
    config = config_of({"name": "tic_tac_toe", "illegal": {"rule": "random"}}, **PLAYOUT_VALUE)
    outcome = play_step(config)
    turns = [turn for episode in outcome.episodes for turn in episode.turns]
    assert all(turn.rewards["playout_value"] == turn.playout for turn in turns)
    assert {-1.0, 0.0, 1.0} > {turn.playout for turn in turns} or len({turn.playout for turn in turns}) > 3
    assert outcome.metrics["gradient_norm"] > 0 and "abstained/playout_value" not in outcome.metrics
    assert play_step(config).episodes == outcome.episodes


def test_playout_value_without_playouts_is_refused():
    with pytest.raises(ConfigError, match=r"'playout_value' needs playouts.*rollout.playouts: 4"):
        config_of({"name": "tic_tac_toe"}, **{**PLAYOUT_VALUE, "rollout": {"games_per_step": 8}})
