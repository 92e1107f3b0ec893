"""The study of the dilemma: what its arms are, what is measured of a policy by hand, and what its page says."""

import json

import pytest

from sparring import play_episodes
from sparring.config import recipe, resolve
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import AgentSpec
from studies.common import rounds_along
from studies.common.result_figures import Results
from studies.dilemma import rounds, study
from studies.dilemma import tables as page
from tests.studies.told_run import told_run

C, D = "cooperate", "defect"


def game(count):
    return make_game("repeated_dilemma", options={"rounds": count, "told": False})


def scripted(*moves, then=D):
    return AgentSpec("scripted", {"moves": list(moves), "preference": [then]}).make()


def config_of(arm):
    """Return the configuration of an arm's first seed."""
    cell = next(cell for cell in study.cells(study.STUDY.setting) if cell.key == (arm, 0))
    return resolve(recipe.apply_overrides(recipe.load_recipe(cell.command[2]), cell.command[3:]))


def test_the_arms_differ_in_the_weight_of_the_alignment_alone():
    naive, aligned = (config_of(arm).model_dump() for arm in (study.NAIVE, study.ALIGNED))
    assert {key for key in naive if naive[key] != aligned[key]} == {"name", "summary", "credit"}
    assert naive["credit"]["name"] == aligned["credit"]["name"] == "advantage_alignment"
    assert naive["credit"]["beta"] == 0.0 < aligned["credit"]["beta"]["end"] < aligned["credit"]["beta"]["start"]
    assert {**naive["credit"], "beta": None} == {**aligned["credit"], "beta": None}


def test_they_play_20_rounds_with_themselves_and_are_not_told_how_many():
    config = config_of(study.ALIGNED)
    (environment,) = config.environments
    assert environment.options == {"rounds": 20, "told": False}
    assert config.context.name == "markov" and config.matchmaker.name == "mirror" and not config.bots
    assert config.rollout.group_size == config.rollout.games_per_step > 1


def test_who_always_cooperates_loses_a_point_a_round_and_who_always_defects_none():
    found = rounds.figures_of(game(20), scripted(then=C), 3)
    assert (found[rounds.BOTH], found[rounds.NEITHER], found[rounds.WITH_ITSELF]) == (1.0, 0.0, 3.0)
    assert (found[rounds.AGAINST], found[rounds.LOST], found[rounds.LEGAL]) == (0.0, 1.0, 1.0)
    assert (found[rounds.OPENS], found["cooperates after cooperate, cooperate"]) == (1.0, 1.0)
    assert found["cooperates after defect, defect"] is None
    found = rounds.figures_of(game(20), scripted(), 3)
    assert (found[rounds.BOTH], found[rounds.NEITHER], found[rounds.WITH_ITSELF], found[rounds.LOST]) == (0.0, 1.0, 1.0, 0.0)


def test_who_cooperates_once_loses_that_round_and_rounds_are_counted():
    found = rounds.figures_of(game(4), scripted(C), 2)
    assert (found[rounds.BOTH], found[rounds.NEITHER], found[rounds.WITH_ITSELF]) == (0.25, 0.75, 1.5)
    assert (found[rounds.AGAINST], found[rounds.LOST]) == (0.75, 0.25)


def test_a_strategy_is_told_by_own_choice_first():
    """Seat 0: c d c d; seat 1: c c d d."""
    episodes = play_episodes(game(4), [f"scripted moves=[{','.join(moves)}]" for moves in ((C, D, C, D), (C, C, D, D))])
    assert rounds.chosen(episodes[0]) == [(C, C), (D, C), (C, D), (D, D)]
    assert rounds.strategy(episodes) == {
        rounds.OPENS: 1.0,
        "cooperates after cooperate, cooperate": 0.5,  # seat 0 does not, seat 1 does
        "cooperates after cooperate, defect": 0.0,  # seat 1 in round 3, seat 0 in round 4
        "cooperates after defect, cooperate": 0.5,  # seat 0 in round 3, not seat 1 in round 4
        "cooperates after defect, defect": None,
    }


def test_an_illegal_reply_is_no_legal_one_and_what_was_played_for_it_counts():
    made = make_game("repeated_dilemma", options={"rounds": 2, "told": False}, illegal={"rule": "random", "penalty": 0.5})
    found = rounds.figures_of(made, scripted(C, "nonsense"), 40)
    assert found[rounds.LEGAL] == 0.5 and 0.5 < found[rounds.BOTH] < 0.8  # half of the plays' second rounds, by chance a quarter


def test_a_run_is_measured_in_a_process_of_its_own(tmp_path, monkeypatch):
    lines = [{"step": step, "return/repeated_dilemma/row": 20.0 + step, "return/repeated_dilemma/column": 20.0} for step in (5, 10, 20)]
    told_run(monkeypatch, rounds_along, lines, {"environments": [{"options": {"rounds": 20}}]})
    asked = []

    def ask(words):
        asked.extend(words)
        (tmp_path / study.FOUND).write_text(json.dumps({rounds.BOTH: 0.9}))
        return ""

    found = study.measured(tmp_path, "", ask, plays=7)
    assert found == {rounds.BOTH: 0.9, "points a round after 10": 1.25, "points a round after 20": 1.5}
    assert asked[:3] == ["python", "-m", "studies.dilemma.rounds"]
    assert json.loads(asked[3]) == {"run": str(tmp_path), "plays": 7} and asked[4] == str(tmp_path / study.FOUND)


def row(arm, **figures):
    """Return a row of two seeds; the figures given are those of seed 1, and seed 0 always reaches what is asked for."""
    good = {rounds.BOTH: 0.9, rounds.NEITHER: 0.9, rounds.LOST: 0.0, rounds.LEGAL: 1.0, rounds.WITH_ITSELF: 2.0, rounds.AGAINST: 1.0}
    names = (rounds.OPENS, *(f"{rounds.AFTER}{one}, {two}" for one, two in rounds.PAIRS))
    good |= dict.fromkeys(names) | {"seconds": 60.0, f"{rounds_along.ALONG}10": 1.0, f"{rounds_along.ALONG}20": 3.0}
    named = {getattr(rounds, name.upper()): value for name, value in figures.items()}
    return {"arm": arm, "starts": "all", "plays": 9, "values": {name: {"0": value, "1": named.get(name, value)} for name, value in good.items()}}


@pytest.mark.parametrize(
    ("figures", "counts"), [({}, (2, 2, 2)), ({"both": 0.8}, (1, 2, 1)), ({"lost": 0.1}, (2, 2, 2)), ({"lost": 0.11}, (2, 1, 1))]
)
def test_the_verdict_counts_seeds_that_reach_what_was_asked_for(figures, counts):
    said = page.verdict(Results({"rows": [row(study.NAIVE, neither=0.8), row(study.ALIGNED, **figures)]}))
    both, lost, every = counts
    assert f"**alignment**: cooperation in {both}, at most so much lost in {lost}, both in {every} of 2 seeds." in said
    assert "**naive**: defection in 1 of 2 seeds." in said


def test_the_tables_have_a_line_per_seed_and_the_chart_a_curve_per_arm():
    results = Results({"rows": [row(study.NAIVE, both=0.25), row(study.ALIGNED)]})
    assert page.ends(results).splitlines()[3] == "| naive | 1 | 0.250 | 0.900 | 2.000 | 1.000 | 0.000 | 1.000 | 1.0 |"
    assert page.strategies(results).splitlines()[2] == "| naive | 0 | - | - | - | - | - |"
    (chart,) = page.charts(results).values()
    assert "naive" in chart and "alignment" in chart and "2 seeds" in chart
