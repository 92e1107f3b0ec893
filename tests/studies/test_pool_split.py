"""The pool-splitting study: its arms, figures of games by hand, and the page."""

import json

import pytest

from sparring.config import recipe, resolve
from sparring.core.errors import GameError
from sparring.core.rng import Stream
from sparring.environments.bargain.rules import Scenario
from sparring.environments.catalogue import another_bank, make_game
from sparring.measure.agent_spec import AgentSpec
from sparring.play.players.base import TextAgent
from sparring.play.spec import untrained_spec
from sparring.play.team import play_teams
from studies.common import rounds_along
from studies.common.result_figures import Results
from studies.pool_split import rounds, study
from studies.pool_split import tables as page
from tests.studies.builders import stub_run

OPTIONS = {"kinds": 2, "most": 1, "total": 6, "scenarios": 10, "values": "opposed"}


def game(count=4, **options):
    base_game = {"name": "pool_split", "options": {**OPTIONS, **options}}
    return make_game(
        "repeated",
        options={"environment": base_game, "rounds": count, "recall": True},
        illegal={"rule": "random", "penalty": 0.5},
    )


class PreferringPlayer(TextAgent):
    def choose(self, state, seat, stream):
        values = state.play.start.values[seat]
        return " ".join("1" if value == max(values) else "0" for value in values)


def scripted_claims(*claims):
    return AgentSpec("scripted", {"moves": list(claims), "preference": ["1 1"]}).make()


def config_of(arm, seed=0):
    return resolve(
        recipe.apply_overrides(recipe.load_recipe(study.RECIPE), study.overrides_of_arm(arm, seed, study.STUDY.setting))
    )


def test_the_arms_differ_only_in_the_weight_of_the_alignment():
    naive, aligned = (config_of(arm).model_dump() for arm in (study.NAIVE, study.ALIGNED))
    assert {key for key in naive if naive[key] != aligned[key]} == {"credit"}
    assert naive["credit"]["beta"] == 0.0 < aligned["credit"]["beta"]["end"] < aligned["credit"]["beta"]["start"]
    assert {**naive["credit"], "beta": None} == {**aligned["credit"], "beta": None}


def test_arms_split_opposed_pools_in_self_play_and_see_the_last_round():
    config = config_of(study.ALIGNED)
    (environment,) = config.environments
    assert environment.options["recall"] and environment.options["environment"]["options"]["values"] == "opposed"
    assert config.context.name == "markov" and config.matchmaker.name == "mirror" and not config.bots
    training_game = make_game("repeated", options=environment.options)
    assert len(training_game.starts()) < len(
        another_bank(training_game).starts()
    )  # some scenarios remain for measurement


ROUND = rounds.Round(scenario=Scenario((1, 2), ((4, 1), (0, 3))), claims=((1, 2), (1, 1)), total=6)


def test_a_round_by_hand():
    """Books are worth 4 and 0, hats 1 and 3 each; both want the book, and they claim three of the two hats."""
    assert ROUND.points() == pytest.approx(((4 / 2 + 2 * 2 / 3) / 6, (0 + 2 * 1 / 3 * 3) / 6))
    assert ROUND.best == pytest.approx((4 + 2 * 3) / 6)
    assert ROUND.preferred == ((1, 0), (0, 2))
    assert sum(ROUND.points(ROUND.preferred)) == pytest.approx(ROUND.best)
    assert ROUND.conflict and not rounds.Round(scenario=ROUND.scenario, claims=((1, 1), (0, 1)), total=6).conflict


def test_claiming_all_halves_the_pool_and_claiming_preferences_is_optimal():
    greedy = rounds.alone_figures(game(), frozenset(), scripted_claims(), 6)
    assert greedy[rounds.SUM] == greedy[rounds.BOTH_ALL] < 0.75 and greedy[rounds.BOTH_PREFERRED] == 1.0
    assert (greedy[rounds.CONFLICT], greedy[rounds.ALL], greedy[rounds.PREFERRED], greedy[rounds.LEGAL]) == (
        1.0,
        1.0,
        0.0,
        1.0,
    )
    assert (greedy[rounds.AFTER_ALL], greedy[rounds.AFTER_LESS]) == (1.0, None)
    assert (greedy[rounds.ITSELF], greedy[rounds.AGAINST], greedy[rounds.TAKES]) == (0.5, 0.5, 0.5)
    assert greedy[rounds.ROUNDS] == 24
    figures = rounds.alone_figures(game(), frozenset(), PreferringPlayer("prefers"), 6)
    assert (
        figures[rounds.SUM] == pytest.approx(1.0)
        and figures[rounds.PREFERRED] == 1.0
        and figures[rounds.CONFLICT] == 0.0
    )
    assert figures[rounds.AGAINST] < 0.5 < figures[rounds.ITSELF] < figures[rounds.TAKES]
    assert (figures[rounds.AFTER_ALL], figures[rounds.AFTER_LESS]) == (None, 0.0)


def test_claims_are_counted_by_the_previous_claim_of_the_other_player():
    """Both claim all, one item, all, all. After a claim of all, 2 of 4 claims are all; after less, 2 of 2."""
    recorded_rounds = rounds.play_rounds(game(), frozenset(), (agent := scripted_claims("1 1", "0 1"), agent), 3)
    figures = rounds.strategy(recorded_rounds.rounds)
    assert (figures[rounds.ALL], figures[rounds.AFTER_ALL], figures[rounds.AFTER_LESS]) == (0.75, 0.5, 1.0)
    # seat 0 claims all and then less, seat 1 less and then all; a claim is counted by the opponent's previous claim
    claims = ((1, 2), ((1, 2), (0, 2)))
    figures = rounds.strategy(
        [rounds.Round(scenario=ROUND.scenario, claims=((1, 1), (1, 2)), total=6, previous=claims)]
    )
    assert (figures[rounds.AFTER_ALL], figures[rounds.AFTER_LESS]) == (1.0, 0.0)


def test_each_learner_plays_the_other_from_both_seats(monkeypatch, tmp_path):
    agents = {"naive": scripted_claims(), "alignment": scripted_claims("0 0", "0 0", "0 0", "0 0")}

    class Engine:
        def __init__(self, agent):
            self.player, self.environments = agent, {(game(),): None}

        def agent(self, ref):
            return self.player

    monkeypatch.setattr(rounds, "load_run", lambda run, threads: (None, Engine(agents[run.name]), None))
    figures = rounds.figures({name: tmp_path / name for name in agents}, 6)
    for role in ("first", "second"):
        assert (figures["naive"][f"{rounds.CROSS}{role}"], figures["alignment"][f"{rounds.CROSS}{role}"]) == (1.0, 0.0)
    assert (figures["naive"][rounds.ITSELF], figures["alignment"][rounds.ITSELF]) == (0.5, 0.0)
    assert 0 < figures["naive"][rounds.ROUNDS] < 24  # scenarios that occurred in both trainings are left out


def test_only_rounds_unseen_in_training_are_counted():
    bank = another_bank(game())
    training_scenarios = game().starts()
    recorded_rounds = rounds.play_rounds(bank, training_scenarios, (agent := scripted_claims(), agent), 20)
    assert 0 < len(recorded_rounds.rounds) < 80 and not training_scenarios & {
        recorded_round.scenario for recorded_round in recorded_rounds.rounds
    }
    with pytest.raises(GameError, match="all initial states occur in training"):
        rounds.play_rounds(bank, bank.starts(), (agent, agent), 2)


def test_recorded_rounds_are_the_rounds_with_payoffs():
    recorded_rounds = rounds.play_rounds(
        game(3), frozenset(), (scripted_claims("0 1", "1 0"), scripted_claims("1 1", "0 1")), 5
    )
    for first_round in range(0, 15, 3):
        assert [recorded_round.claims for recorded_round in recorded_rounds.rounds[first_round : first_round + 3]] == [
            ((0, 1), (1, 1)),
            ((1, 0), (0, 1)),
            ((1, 1), (1, 1)),
        ]


def test_the_points_of_all_rounds_sum_to_the_return():
    game_of_three_rounds = game(3)
    spec = untrained_spec(game_of_three_rounds, 0, ("one", "two"), Stream.from_seed(5))
    (episode,) = play_teams([spec], {"one": scripted_claims("0 1", "1 0"), "two": scripted_claims("1 1", "0 1")})
    points = [recorded_round.points() for recorded_round in rounds.rounds_of(spec, episode)]
    assert episode.returns == pytest.approx(
        [sum(points_of_round[seat] for points_of_round in points) for seat in (0, 1)]
    )
    assert [recorded_round.previous for recorded_round in rounds.rounds_of(spec, episode)][:2] == [
        None,
        ((1, 1), ((0, 1), (1, 1))),
    ]


def test_both_learners_are_trained_and_play_each_other(tmp_path, monkeypatch):
    lines = [{"step": step, "return/repeated/first": 4.0 + step, "return/repeated/second": 6.0} for step in (5, 10, 20)]
    stub_run(monkeypatch, rounds_along, lines, {"environments": [{"options": {"rounds": 10}}]})
    commands, run = [], tmp_path / "naive-3"
    run.mkdir()

    def run_command(words):
        commands.append(list(words))
        (run / study.ROUNDS_FILE).write_text(json.dumps({arm: {rounds.SUM: 0.9} for arm in study.ARMS}))
        return ""

    figures = study.run_figures(run, "", run_command, seed=3, setting={**study.STUDY.setting, "plays": 7})
    assert commands[0][:4] == ["sparring", "train", "pool_split-tiny", "seed=3"] and "credit.beta=0" not in commands[0]
    assert commands[0][-3:] == ["--run", str(tmp_path / "alignment-3"), "--overwrite"]
    assert json.loads(commands[1][3]) == {
        "runs": {"naive": str(run), "alignment": str(tmp_path / "alignment-3")},
        "plays": 7,
    }
    assert figures["naive"] == {rounds.SUM: 0.9, "points a round after 10": 1.0, "points a round after 20": 1.5}
    assert figures["alignment"].pop("seconds") >= 0 and figures["alignment"] == figures["naive"]
    cells = {(3,): {"found": {**figures, "alignment": {**figures["alignment"], "seconds": 2.0}}, "seconds": 1.0}}
    first_row, second_row = study.rows(study.STUDY.setting, cells)
    assert (first_row["arm"], second_row["arm"], first_row["starts"]) == ("naive", "alignment", "unseen")
    assert first_row["values"]["seconds"] == {"3": 1.0} and second_row["values"]["seconds"] == {"3": 2.0}


def row(arm, **figures):
    """Return a row of two seeds; seed 1 has the given figures."""
    names = [value for name, value in vars(rounds).items() if name.isupper() and isinstance(value, str)]
    figures_of_seed_0 = dict.fromkeys([*names, "seconds"], 0.5) | {
        rounds.SUM: 0.9 if arm == study.ALIGNED else 0.6,
        rounds.BOTH_ALL: 0.6,
    }
    figures_of_seed_1 = {getattr(rounds, name.upper()): value for name, value in figures.items()}
    return {
        "arm": arm,
        "starts": "unseen",
        "plays": 9,
        "values": {
            name: {"0": value, "1": figures_of_seed_1.get(name, value)} for name, value in figures_of_seed_0.items()
        },
    }


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (
            {},
            "**alignment** recovers 0.75 to 0.75; goal reached in 2 of 2 seeds. The goal against a player that takes everything is reached in 2 of 2 seeds.",
        ),
        ({"sum": 0.79}, "**alignment** recovers 0.48 to 0.75; goal reached in 1 of 2 seeds."),
        ({"takes": 0.51}, "The goal against a player that takes everything is reached in 1 of 2 seeds."),
    ],
)
def test_the_verdict_counts_the_seeds_that_reach_the_goal(figures, words):
    results = Results({"rows": [row(study.NAIVE), row(study.ALIGNED, **figures)]})
    assert words in page.verdict_text(
        results
    ) and "**naive** recovers 0.00 to 0.00; goal reached in 2 of 2 seeds." in page.verdict_text(results)
