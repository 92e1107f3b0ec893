"""The oracle benchmark: its recipes, and which verdicts count as waiting time of an episode."""

import json

from sparring.config.recipe import load_recipe, recipe_names
from studies.vpr_released.study import GAMES, recipe_of
from tests.cases import every_case
from tests.docs.loading import load

load("benchmarks", "published"), load("benchmarks", "common")
oracles, judging = load("benchmarks", "oracles"), load("benchmarks", "judging")
TINY = ["threads=1", "warmup.updates=0", "rollout.games_per_step=2", "model.hidden_size=16", "model.layers=1"]
RELEASED = [recipe_of(game) for game in GAMES]


def test_the_released_board_of_each_game_has_a_row():
    names = [name for name in recipe_names() if name.startswith("vpr/") and name.endswith("-tiny-released")]
    assert sorted(RELEASED) == sorted(names) and len(names) == 3
    assert all(load_recipe(name)["rollout"]["candidates"]["count"] == 4 for name in RELEASED)


def test_judging_time_is_read_from_the_first_steps_of_a_run(tmp_path):
    lines = [
        {"step": step, "seconds/oracle": 1.0, "seconds/round": 4.0 if step <= judging.STEPS else 1.0}
        for step in range(1, 60)
    ]
    (tmp_path / "timing.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert judging.judging_shares_of_run(tmp_path) == [0.25] * 40


@every_case("recipe", [*oracles.RECIPES, *RELEASED])
def test_a_step_of_each_recipe_reports_its_share_of_judging(recipe):
    groups = [] if recipe in RELEASED else ["rollout.group_size=2"]
    shares = oracles.judging_shares(recipe, [*TINY, *groups], 2)
    assert len(shares) == 2 and all(0 < share < 1 for share in shares)


def test_only_judging_during_play_is_counted(monkeypatch):
    """A slow oracle lengthens the step, because episodes wait for its verdicts."""
    oracle_class, counts, durations = type(oracles.registry.bind("oracles", "graded", {})()), [], []
    original_judge, original_round = oracle_class.judge, oracles.play_round

    def judge(self, states, *arguments):
        counts.append(len(states))
        oracles.time.sleep(0.1)
        return original_judge(self, states, *arguments)

    def recording_round(*arguments):
        durations.append(original_round(*arguments))
        return durations[-1]

    monkeypatch.setattr(oracle_class, "judge", judge)
    monkeypatch.setattr(oracles, "play_round", recording_round)
    (judging_share,) = oracles.judging_shares("vpr/sudoku-tiny-released", TINY, 1)
    timing = durations[0].timing
    assert counts and timing["seconds/oracle"] >= 0.1 * len(counts)
    assert judging_share == timing["seconds/oracle"] / timing["seconds/round"]
