"""The dilemma study: its arms, figures of policies by hand, and the page."""

import json

import pytest

from sparring import play_episodes
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import AgentSpec
from studies.common import rounds_along
from studies.common.result_figures import Results
from studies.dilemma import rounds, study
from studies.dilemma import tables as page
from tests.studies.builders import config_of, stub_run

C, D = "cooperate", "defect"


def game(count):
    return make_game("repeated_dilemma", options={"rounds": count, "told": False})


def scripted(*moves, last_move=D):
    return AgentSpec("scripted", {"moves": list(moves), "preference": [last_move]}).make()


def test_the_arms_differ_only_in_the_weight_of_the_alignment():
    naive, aligned = (config_of(study, arm).model_dump() for arm in (study.NAIVE, study.ALIGNED))
    assert {key for key in naive if naive[key] != aligned[key]} == {"name", "summary", "credit"}
    assert naive["credit"]["name"] == aligned["credit"]["name"] == "advantage_alignment"
    assert naive["credit"]["beta"] == 0.0 < aligned["credit"]["beta"]["end"] < aligned["credit"]["beta"]["start"]
    assert {**naive["credit"], "beta": None} == {**aligned["credit"], "beta": None}


def test_always_cooperating_loses_one_point_a_round_and_defecting_none():
    figures = rounds.figures_of(game(20), scripted(last_move=C), 3)
    assert (figures[rounds.BOTH], figures[rounds.NEITHER], figures[rounds.WITH_ITSELF]) == (1.0, 0.0, 3.0)
    assert (figures[rounds.AGAINST], figures[rounds.LOST], figures[rounds.LEGAL]) == (0.0, 1.0, 1.0)
    assert (figures[rounds.OPENS], figures["cooperates after cooperate, cooperate"]) == (1.0, 1.0)
    assert figures["cooperates after defect, defect"] is None
    figures = rounds.figures_of(game(20), scripted(), 3)
    assert (figures[rounds.BOTH], figures[rounds.NEITHER], figures[rounds.WITH_ITSELF], figures[rounds.LOST]) == (
        0.0,
        1.0,
        1.0,
        0.0,
    )
    figures = rounds.figures_of(game(4), scripted(C), 2)
    assert (figures[rounds.BOTH], figures[rounds.NEITHER], figures[rounds.WITH_ITSELF]) == (0.25, 0.75, 1.5)
    assert (figures[rounds.AGAINST], figures[rounds.LOST]) == (0.75, 0.25)


def test_a_strategy_is_described_by_the_previous_choices_of_the_player_and_the_opponent():
    """Seat 0: c d c d; seat 1: c c d d."""
    episodes = play_episodes(game(4), [f"scripted moves=[{','.join(moves)}]" for moves in ((C, D, C, D), (C, C, D, D))])
    assert rounds.choices_by_round(episodes[0]) == [(C, C), (D, C), (C, D), (D, D)]
    assert rounds.strategy(episodes) == {
        rounds.OPENS: 1.0,
        "cooperates after cooperate, cooperate": 0.5,  # seat 0 does not, seat 1 does
        "cooperates after cooperate, defect": 0.0,  # seat 1 in round 3, seat 0 in round 4
        "cooperates after defect, cooperate": 0.5,  # seat 0 in round 3, not seat 1 in round 4
        "cooperates after defect, defect": None,
    }


def test_an_illegal_reply_is_counted_and_its_substitute_is_the_choice():
    game_with_random_substitute = make_game(
        "repeated_dilemma", options={"rounds": 2, "told": False}, illegal={"rule": "random", "penalty": 0.5}
    )
    figures = rounds.figures_of(game_with_random_substitute, scripted(C, "nonsense"), 40)
    assert (
        figures[rounds.LEGAL] == 0.5 and 0.5 < figures[rounds.BOTH] < 0.8
    )  # half of the second rounds, a quarter by chance


def test_a_run_is_measured_in_a_separate_process(tmp_path, monkeypatch):
    lines = [
        {"step": step, "return/repeated_dilemma/row": 20.0 + step, "return/repeated_dilemma/column": 20.0}
        for step in (5, 10, 20)
    ]
    stub_run(monkeypatch, rounds_along, lines, {"environments": [{"options": {"rounds": 20}}]})
    commands = []

    def run_command(words):
        commands.extend(words)
        (tmp_path / study.ROUNDS_FILE).write_text(json.dumps({rounds.BOTH: 0.9}))
        return ""

    figures = study.run_figures(tmp_path, "", run_command, plays=7)
    assert figures == {rounds.BOTH: 0.9, "points a round after 10": 1.25, "points a round after 20": 1.5}
    assert commands[:3] == ["python", "-m", "studies.dilemma.rounds"]
    assert json.loads(commands[3]) == {"run": str(tmp_path), "plays": 7} and commands[4] == str(
        tmp_path / study.ROUNDS_FILE
    )


def row(arm, **figures):
    """Return a row of two seeds: seed 0 always reaches the goal, seed 1 has the given figures."""
    figures_of_seed_0 = {rounds.BOTH: 0.9, rounds.NEITHER: 0.9, rounds.LOST: 0.0, "seconds": 60.0}
    figures_of_seed_1 = {getattr(rounds, name.upper()): value for name, value in figures.items()}
    return {
        "arm": arm,
        "starts": "all",
        "plays": 9,
        "values": {
            name: {"0": value, "1": figures_of_seed_1.get(name, value)} for name, value in figures_of_seed_0.items()
        },
    }


@pytest.mark.parametrize(
    ("figures", "counts"),
    [({}, (2, 2, 2)), ({"both": 0.8}, (1, 2, 1)), ({"lost": 0.1}, (2, 2, 2)), ({"lost": 0.11}, (2, 1, 1))],
)
def test_the_verdict_counts_the_seeds_that_reach_the_goal(figures, counts):
    text = page.verdict_text(Results({"rows": [row(study.NAIVE, neither=0.8), row(study.ALIGNED, **figures)]}))
    num_cooperating, num_not_exploited, num_all = counts
    assert (
        f"**alignment** reaches the first goal in {num_cooperating}, the second in {num_not_exploited}, and both in {num_all} of 2 seeds."
        in text
    )
    assert "**naive** reaches its goal in 1 of 2 seeds." in text
