"""The study of splitting pools: its arms, what is measured of plays by hand, and what its page says."""

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
    inner = {"name": "pool_split", "options": {**OPTIONS, **options}}
    return make_game(
        "repeated",
        options={"environment": inner, "rounds": count, "recall": True},
        illegal={"rule": "random", "penalty": 0.5},
    )


class Prefers(TextAgent):
    def choose(self, state, seat, stream):
        values = state.play.start.values[seat]
        return " ".join("1" if value == max(values) else "0" for value in values)


def taking(*claims):
    return AgentSpec("scripted", {"moves": list(claims), "preference": ["1 1"]}).make()


def config_of(arm, seed=0):
    return resolve(
        recipe.apply_overrides(recipe.load_recipe(study.RECIPE), study.changes(arm, seed, study.STUDY.setting))
    )


def test_the_arms_differ_in_the_weight_of_the_alignment_alone():
    naive, aligned = (config_of(arm).model_dump() for arm in (study.NAIVE, study.ALIGNED))
    assert {key for key in naive if naive[key] != aligned[key]} == {"credit"}
    assert naive["credit"]["beta"] == 0.0 < aligned["credit"]["beta"]["end"] < aligned["credit"]["beta"]["start"]
    assert {**naive["credit"], "beta": None} == {**aligned["credit"], "beta": None}


def test_they_split_opposed_pools_with_themselves_and_see_the_round_before():
    config = config_of(study.ALIGNED)
    (environment,) = config.environments
    assert environment.options["recall"] and environment.options["environment"]["options"]["values"] == "opposed"
    assert config.context.name == "markov" and config.matchmaker.name == "mirror" and not config.bots
    trained = make_game("repeated", options=environment.options)
    assert len(trained.starts()) < len(another_bank(trained).starts())  # some are left to be measured on


ROUND = rounds.Round(scenario=Scenario((1, 2), ((4, 1), (0, 3))), claims=((1, 2), (1, 1)), total=6)


def test_a_round_by_hand():
    """Books are worth 4 and 0, hats 1 and 3 each; both want the book, and three hats are named of two."""
    assert ROUND.points() == pytest.approx(((4 / 2 + 2 * 2 / 3) / 6, (0 + 2 * 1 / 3 * 3) / 6))
    assert ROUND.best == pytest.approx((4 + 2 * 3) / 6)
    assert ROUND.preferred == ((1, 0), (0, 2))
    assert sum(ROUND.points(ROUND.preferred)) == pytest.approx(ROUND.best)
    assert ROUND.conflict and not rounds.Round(scenario=ROUND.scenario, claims=((1, 1), (0, 1)), total=6).conflict


def test_two_who_take_all_share_everything_and_two_who_take_what_they_prefer_get_the_best_sum():
    greedy = rounds.alone_figures(game(), frozenset(), taking(), 6)
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
    kind = rounds.alone_figures(game(), frozenset(), Prefers("prefers"), 6)
    assert kind[rounds.SUM] == pytest.approx(1.0) and kind[rounds.PREFERRED] == 1.0 and kind[rounds.CONFLICT] == 0.0
    assert kind[rounds.AGAINST] < 0.5 < kind[rounds.ITSELF] < kind[rounds.TAKES]
    assert (kind[rounds.AFTER_ALL], kind[rounds.AFTER_LESS]) == (None, 0.0)


def test_an_answer_is_told_by_what_the_other_took_in_the_round_before():
    """Both take all, one item, all, all: after all 0 of 2 and 2 of 2, after less 2 of 2."""
    played = rounds.played(game(), frozenset(), (agent := taking("1 1", "0 1"), agent), 3)
    figures = rounds.strategy(played.rounds)
    assert (figures[rounds.ALL], figures[rounds.AFTER_ALL], figures[rounds.AFTER_LESS]) == (0.75, 0.5, 1.0)
    # seat 0 takes all and then less, seat 1 less and then all: an answer is to what the other took
    before = ((1, 2), ((1, 2), (0, 2)))
    figures = rounds.strategy([rounds.Round(scenario=ROUND.scenario, claims=((1, 1), (1, 2)), total=6, before=before)])
    assert (figures[rounds.AFTER_ALL], figures[rounds.AFTER_LESS]) == (1.0, 0.0)


def test_each_learner_meets_the_other_from_both_seats(monkeypatch, tmp_path):
    agents = {"naive": taking(), "alignment": taking("0 0", "0 0", "0 0", "0 0")}

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
    assert 0 < figures["naive"][rounds.ROUNDS] < 24  # those that both have met are left out


def test_only_rounds_that_training_never_met_are_counted():
    bank = another_bank(game())
    known = game().starts()
    played = rounds.played(bank, known, (agent := taking(), agent), 20)
    assert 0 < len(played.rounds) < 80 and not known & {part.scenario for part in played.rounds}
    with pytest.raises(GameError, match="training met every start"):
        rounds.played(bank, bank.starts(), (agent, agent), 2)


def test_the_rounds_of_a_play_are_those_that_were_paid():
    played = rounds.played(game(3), frozenset(), (taking("0 1", "1 0"), taking("1 1", "0 1")), 5)
    for place in range(0, 15, 3):
        assert [part.claims for part in played.rounds[place : place + 3]] == [
            ((0, 1), (1, 1)),
            ((1, 0), (0, 1)),
            ((1, 1), (1, 1)),
        ]


def test_the_points_of_its_rounds_add_up_to_what_a_play_paid():
    three = game(3)
    spec = untrained_spec(three, 0, ("one", "two"), Stream.from_seed(5))
    (episode,) = play_teams([spec], {"one": taking("0 1", "1 0"), "two": taking("1 1", "0 1")})
    points = [part.points() for part in rounds.rounds_of(spec, episode)]
    assert episode.returns == pytest.approx([sum(both[seat] for both in points) for seat in (0, 1)])
    assert [part.before for part in rounds.rounds_of(spec, episode)][:2] == [None, ((1, 1), ((0, 1), (1, 1)))]


def test_both_learners_are_trained_and_measured_with_each_other(tmp_path, monkeypatch):
    lines = [{"step": step, "return/repeated/first": 4.0 + step, "return/repeated/second": 6.0} for step in (5, 10, 20)]
    stub_run(monkeypatch, rounds_along, lines, {"environments": [{"options": {"rounds": 10}}]})
    commands, run = [], tmp_path / "naive-3"
    run.mkdir()

    def ask(words):
        commands.append(list(words))
        (run / study.FOUND).write_text(json.dumps({arm: {rounds.SUM: 0.9} for arm in study.ARMS}))
        return ""

    figures = study.measured(run, "", ask, seed=3, setting={**study.STUDY.setting, "plays": 7})
    assert commands[0][:4] == ["sparring", "train", "pool_split-tiny", "seed=3"] and "credit.beta=0" not in commands[0]
    assert commands[0][-3:] == ["--run", str(tmp_path / "alignment-3"), "--overwrite"]
    assert json.loads(commands[1][3]) == {
        "runs": {"naive": str(run), "alignment": str(tmp_path / "alignment-3")},
        "plays": 7,
    }
    assert figures["naive"] == {rounds.SUM: 0.9, "points a round after 10": 1.0, "points a round after 20": 1.5}
    assert figures["alignment"].pop("seconds") >= 0 and figures["alignment"] == figures["naive"]
    cells = {(3,): {"found": {**figures, "alignment": {**figures["alignment"], "seconds": 2.0}}, "seconds": 1.0}}
    first, second = study.rows(study.STUDY.setting, cells)
    assert (first["arm"], second["arm"], first["starts"]) == ("naive", "alignment", "unseen")
    assert first["values"]["seconds"] == {"3": 1.0} and second["values"]["seconds"] == {"3": 2.0}


def row(arm, **figures):
    """Return a row of two seeds; the figures given are those of seed 1."""
    names = [value for name, value in vars(rounds).items() if name.isupper() and isinstance(value, str)]
    good = dict.fromkeys([*names, "seconds"], 0.5) | {
        rounds.SUM: 0.9 if arm == study.ALIGNED else 0.6,
        rounds.BOTH_ALL: 0.6,
    }
    named = {getattr(rounds, name.upper()): value for name, value in figures.items()}
    return {
        "arm": arm,
        "starts": "unseen",
        "plays": 9,
        "values": {name: {"0": value, "1": named.get(name, value)} for name, value in good.items()},
    }


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        (
            {},
            "**alignment**: 0.75 to 0.75 of it, as asked for in 2 of 2 seeds. Taking all does not pay against it in 2 of 2 seeds.",
        ),
        ({"sum": 0.79}, "**alignment**: 0.48 to 0.75 of it, as asked for in 1 of 2 seeds."),
        ({"takes": 0.51}, "Taking all does not pay against it in 1 of 2 seeds."),
    ],
)
def test_the_verdict_counts_seeds_that_reach_what_was_asked_for(figures, words):
    results = Results({"rows": [row(study.NAIVE), row(study.ALIGNED, **figures)]})
    assert words in page.verdict(
        results
    ) and "**naive**: 0.00 to 0.00 of it, as asked for in 2 of 2 seeds." in page.verdict(results)
