"""The study of VPR as released: sampled tokens, completion, and the stop when the token budget is spent."""

import json

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe, to_yaml
from sparring.core.errors import ConfigError
from sparring.core.records import Episode, Turn
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.run.checkpoint import load_step
from sparring.run.folder import RunFolder
from sparring.run.loop import train
from studies.common.results_file import errors_of_row
from studies.vpr_released.state_groups import BudgetStop, completion, run, tokens, warmed
from studies.vpr_released.study import ARMS, GAMES, STUDY, changes_of, recipe_of
from studies.vpr_visited import study as vpr_visited


def episode_of_actions(name, words, **options):
    """Return an episode with these actions, and its game; None is a reply that is no action."""
    game = make_game(name, options=options, illegal={"rule": "forfeit"})
    state, turns = game.reset(Stream(5)), []
    for index, word in enumerate(words):
        legal = state.legal_actions()
        turns.append(
            Turn(
                0,
                index,
                "agent",
                "k",
                legal,
                str(word),
                word,
                "ok" if word else "unparsable",
                {"game": 0.0},
                moment=index,
            )
        )
        if word:
            state.apply(word)
    episode = Episode(
        episode_id=0,
        group_id=0,
        game=game.name,
        seed=5,
        roles=tuple(game.roles),
        agents=("agent",),
        trained=(True,),
        turns=tuple(turns),
        returns=(0.0,),
    )
    return game, episode


def test_all_sampled_tokens_are_counted():
    line = {"reply_tokens": 2.0, "turns_per_game": 3.0}
    assert tokens(line, 8) == 48
    assert tokens({**line, "playouts/tokens": 100.0}, 8) == 148
    assert tokens({**line, "candidates/tokens": 190.0}, 8) == 190
    assert tokens({"loss": 1.0}, 8) == 0


def test_a_stop_is_requested_when_the_tokens_are_spent(tmp_path):
    file = tmp_path / "metrics.jsonl"
    stop = BudgetStop(file, 8, 100)
    assert not stop.requested
    line = json.dumps({"step": 1, "reply_tokens": 2.0, "turns_per_game": 3.0})
    file.write_text(f"{line}\n{line}\n")
    assert stop.tokens == 96 and not stop.requested
    file.write_text(f"{line}\n{line}\n{line}\n")
    assert stop.requested
    other_stop = BudgetStop(file, 1, 1000)
    other_stop.requested = True  # as a signal does
    assert other_stop.requested


SUDOKU = {"puzzle": "12.4 3.1. .14. 4..1", "blanks": 6}
ROOM = {"room": "@$-./----", "moves": 9}
FIELD = {"rows": 2, "columns": 2, "mines": 1}


@pytest.mark.parametrize(
    ("name", "options", "words", "share"),
    [
        ("sudoku", SUDOKU, [None], 0.0),
        ("sudoku", SUDOKU, ["r1c3=3", "r2c2=4", None], 2 / 7),
        ("sudoku", SUDOKU, ["r1c3=3", "r2c2=1"], 1 / 7),
        ("sokoban", ROOM, [], 0.0),
        ("sokoban", ROOM, ["right"], 0.5),
        ("sokoban", ROOM, ["right", "right"], 1.0),
        ("sokoban", ROOM, ["down"], 0.0),
        ("minesweeper", FIELD, [], 0.0),
        ("minesweeper", FIELD, ["r1c1"], 1 / 3),
    ],
)
def test_completion_by_hand(name, options, words, share):
    assert completion(*episode_of_actions(name, words, **options)) == pytest.approx(share)


def test_an_environment_without_completion_is_refused():
    with pytest.raises(ConfigError, match="no completion"):
        completion(*episode_of_actions("urn", []))


def recipe(game, arm):
    return apply_overrides(load_recipe(recipe_of(game)), changes_of(game, arm))


def test_every_arm_of_the_study_has_a_recipe_with_the_same_board():
    for game in GAMES:
        boards = [recipe(game, arm)["environments"][0]["options"] for arm in ARMS]
        assert all(board == boards[0] for board in boards)
    assert len(STUDY.cells(STUDY.setting)) == 5 * 3 * 5


def test_arms_of_a_game_can_share_their_warm_up():
    for game in GAMES:
        recipes = [recipe(game, arm) for arm in ARMS]
        for name in ("model", "warmup", "context"):
            assert all(arm_recipe.get(name) == recipes[0].get(name) for arm_recipe in recipes)
        assert all(
            arm_recipe["environments"][0]["illegal"] == recipes[0]["environments"][0]["illegal"]
            for arm_recipe in recipes
        )


def test_a_shared_warm_up_gives_the_same_run_as_a_separate_one(tmp_path):
    overrides = [
        "steps=2",
        "warmup.updates=3",
        "rollout.games_per_step=8",
        "environments.0.options.puzzles=200",
        "seed=1",
        "threads=1",
        "evaluation.opponents=[]",
    ]
    weights = []
    for arm in ("outcome", "released"):
        config = resolve(apply_overrides(recipe("sudoku", arm), overrides))
        warmed(config, tmp_path / "warm")
    folder = RunFolder.create(tmp_path / "own", to_yaml(config))
    with folder:
        train(config, LocalEngine(config), folder)
    run("vpr/sudoku-tiny-released", overrides[:-3], 1, 10**9, 5, [1], tmp_path / "shared", tmp_path / "warm")
    for name in ("own", "shared"):
        weights.append((load_step(tmp_path / name, 2).path / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
    (folder_name, lock) = sorted(path.name for path in (tmp_path / "warm").iterdir())
    assert folder_name.startswith("sudoku-1-") and lock == f"{folder_name}.lock"


def test_a_run_stops_when_tokens_are_spent_and_is_tested_on_unseen_states(tmp_path):
    overrides = ["steps=1000", "warmup.updates=2", "rollout.games_per_step=8", "environments.0.options.puzzles=200"]
    result = run("vpr/sudoku-tiny-released", overrides, 0, 150, 10, [], tmp_path / "run", tmp_path / "warm")
    assert result["start"].keys() < result.keys() and result["start_occupancy"] == {}
    assert result["starts"] == "unseen" and 150 <= result["tokens"] < 400 and 1 <= result["steps"] < 10
    assert result["occupancy"] == {} and 0 <= result["success"] <= result["completion"] <= 1


def test_states_visited_with_several_replies_are_enumerated(tmp_path):
    for game in GAMES:
        overrides = [
            f"environments.0.options={json.dumps(vpr_visited.BOARDS[game])}",
            "steps=1000",
            "warmup.updates=2",
            "rollout.games_per_step=8",
        ]
        result = run(f"vpr/{game}-tiny-released", overrides, 0, 50, 10, [1, 4], tmp_path / game, tmp_path / "warm")
        for occupancy in (result["start_occupancy"], result["occupancy"]):
            assert occupancy["1"]["distance"] == 0.0 < occupancy["4"]["distance"]
            assert occupancy["4"]["illegal"] < occupancy["1"]["illegal"] < 1
        assert result["start_occupancy"]["1"] != result["occupancy"]["1"]


def test_visited_states_have_a_row_per_training_point_and_reply_count():
    setting = {**vpr_visited.STUDY.setting, "seeds": 2, "games": ["sudoku", "sokoban"], "counts": [1, 4]}
    cells = vpr_visited.cells(setting)
    assert len(cells) == 2 * 2 * 2 * 3 == len({cell.folder for cell in cells})
    results = {}
    for index, cell in enumerate(cells):
        results_by_cell = {
            str(count): {"decisions": index + count, "success": 0.5, "illegal": 0.0, "distance": 0.1}
            for count in (1, 4)
        }
        results[cell.key] = {
            "found": {
                "start_occupancy": {
                    count: {**figures, "decisions": -1.0} for count, figures in results_by_cell.items()
                },
                "occupancy": results_by_cell,
            }
        }
    rows = vpr_visited.rows(setting, results)
    assert len(rows) == 2 * (1 + 2 * 3) * 2 and not any(errors_of_row(row) for row in rows)
    assert rows[0] == {
        "game": "sudoku",
        "arm": "start",
        "sampled": "0",
        "replies": "1",
        "starts": "all",
        "values": {
            "decisions": {"0": -1.0, "1": -1.0},
            "success": {"0": 0.5, "1": 0.5},
            "illegal": {"0": 0.0, "1": 0.0},
            "distance": {"0": 0.1, "1": 0.1},
        },
    }
    (row,) = [
        row
        for row in rows
        if (row["game"], row["arm"], row["sampled"], row["replies"]) == ("sokoban", "random", "20000", "4")
    ]
    keys = [cell.key for cell in cells]
    assert row["values"]["decisions"] == {
        str(seed): keys.index(("sokoban", "random", 20_000, seed)) + 4 for seed in (0, 1)
    }
