"""Policies of several runs in one game: each team gets what its player needs, and wins are counted by team."""

import json

import pytest

from sparring.config import resolve
from sparring.config.recipe import apply_overrides, load_recipe
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.core.rng import Stream
from sparring.environments.choose import ChooseEnvironment
from sparring.play.players.scripted import scripted
from sparring.play.players.werewolf_bot import werewolf_bot
from studies.common import crossed
from studies.common.cross_play import Base, Needs, game_for, pairs_of, play_match, play_matrix, read_needs
from studies.common.crossed import MATRIX
from studies.common.result_figures import Results
from studies.common.results_file import errors_of_row
from studies.werewolf_seven import study
from studies.werewolf_seven import tables as page
from tests.run_with_members import run

FOUR_PLAYERS = {"players": 4, "rounds": 1, "tie": "none", "say": []}
BASE = Base("werewolf", FOUR_PLAYERS, {"rule": "random", "penalty": 0.2})
THREE_CANDIDATES = {"count": 3, "diverse": True}
TINY = {
    "model": {"hidden_size": 8, "layers": 1, "heads": 1, "context": 256},
    "rollout": {"games_per_step": 4, "max_new_tokens": 12},
    "steps": 1,
    "threads": 1,
    "warmup": {"updates": 0},
    "evaluation": {"exact": False, "opponents": []},
}


def config_of(*, choose=None, deduce=False, **options):
    base_game = {**FOUR_PLAYERS, **options, **({"deduce": True} if deduce else {})}
    section = {"name": "werewolf", "options": base_game, "illegal": dict(BASE.illegal)}
    if choose is not None:
        section |= {"name": "choose", "options": {"environment": {"name": "werewolf", "options": base_game}, **choose}}
    return resolve({**TINY, "environments": [section]})


def test_the_needs_of_a_policy_are_read_from_its_environment():
    assert read_needs(config_of()) == (BASE, Needs())
    assert read_needs(config_of(choose=THREE_CANDIDATES, deduce=True)) == (BASE, Needs(THREE_CANDIDATES, True))
    assert read_needs(config_of(deduce=True)) == (BASE, Needs(None, True))
    assert read_needs(config_of(deduce=True, malformed="illegal")) == (BASE, Needs(None, True, True))
    default_config = resolve(
        {**TINY, "environments": [{"name": "choose", "options": {"count": 2}}]}
    )  # choose wraps its example environment
    assert read_needs(default_config) == (Base("rock_paper_scissors", {}, {}), Needs({"count": 2}))


def test_each_team_gets_what_its_player_needs():
    without_needs = game_for(BASE, [Needs(), Needs()])
    assert without_needs.name == "werewolf" and not without_needs.setup.deduce and without_needs.illegal.penalty == 0.2
    village = game_for(BASE, [Needs(), Needs(THREE_CANDIDATES, True)])
    assert (
        isinstance(village, ChooseEnvironment)
        and village.choosers == {1, 2, 3}
        and village.inner.setup.deduce == (1, 2, 3)
    )
    wolf = game_for(BASE, [Needs(THREE_CANDIDATES), Needs(None, True)])
    assert wolf.choosers == {0} and wolf.inner.setup.deduce == (1, 2, 3) and wolf.illegal.penalty == 0.2
    assert wolf.inner.setup.malformed == "noted"
    assert game_for(BASE, [Needs(THREE_CANDIDATES), Needs(None, True, True)]).inner.setup.malformed == "illegal"
    with_candidates = game_for(BASE, [Needs(THREE_CANDIDATES, True)] * 2)
    assert with_candidates.choosers == {0, 1, 2, 3} and with_candidates.inner.setup.deduce == (0, 1, 2, 3)


def test_two_kinds_of_candidates_in_one_game_are_refused():
    with pytest.raises(ConfigError, match=r"one player chooses by .*'diverse': True.*the other by .*'diverse': False"):
        game_for(BASE, [Needs(THREE_CANDIDATES), Needs({**THREE_CANDIDATES, "diverse": False})])


def test_won_is_the_win_rate_of_the_first_team():
    game = game_for(BASE, [Needs(), Needs()])
    silent, bot = scripted(preference=["silence", "abstain"]), werewolf_bot()
    result = play_match(game, [silent, silent], games=20, stream=Stream.from_seed(0))
    assert result.won == 1.0 and result.legal == [1.0, 1.0]  # nobody is voted out, so the wolves win at the end
    win_share = play_match(game, [silent, bot], games=40, stream=Stream.from_seed(0)).won
    assert 0.0 < win_share < 1.0  # the seer names the wolf, and two votes are enough
    assert play_match(game, [silent, bot], games=40, stream=Stream.from_seed(0)).won == win_share
    assert {speech.texts for speech in result.speeches} == {0}  # without words in the options no speech has a text


def test_texts_are_counted_without_the_names_in_them():
    game = game_for(
        Base("werewolf", {"players": 4, "rounds": 1, "tie": "none", "speech": "text", "style": "full"}, {}),
        [Needs(), Needs()],
    )
    result = play_match(
        game,
        [scripted(preference=["p1", "p2", "p3"]), werewolf_bot(sentences=True)],
        games=30,
        stream=Stream.from_seed(0),
    )
    repetitive, talkative = result.speeches
    assert repetitive.texts == 30 and (repetitive.distinct, repetitive.commonest) == (
        1,
        30,
    )  # "p1", "p2" and "p3" count as one text
    assert 60 >= talkative.texts > 30 and 3 < talkative.distinct <= 10 and talkative.commonest < 30


def test_runs_play_each_other_and_bots(tmp_path):
    run(tmp_path / "chooser", config_of(choose=THREE_CANDIDATES, deduce=True))
    run(tmp_path / "plain", config_of())
    runs = {"chooser": tmp_path / "chooser", "plain": tmp_path / "plain"}
    pairs = pairs_of(["chooser", "plain", "bot"], [])
    assert len(pairs) == 9
    rows = play_matrix(runs, {"bot": "werewolf_bot"}, pairs, games=3, seed=1)
    assert [(row["first"], row["second"]) for row in rows] == pairs
    assert all(0.0 <= row["won"] <= 1.0 for row in rows)
    assert next(row for row in rows if row["first"] == row["second"] == "bot")["legal"] == [1.0, 1.0]
    assert rows == play_matrix(runs, {"bot": "werewolf_bot"}, pairs, games=3, seed=1)


def test_a_run_plays_its_initial_weights(tmp_path):
    """The replies of an untrained run equal those of its initial weights; the replies of a trained run differ."""
    pairs = [("start", "own"), ("own", "start"), ("own", "own"), ("start", "start")]

    def rows_of(folder, **changes):
        run(
            tmp_path / folder,
            resolve(
                {
                    **config_of().model_dump(exclude_unset=True),
                    "warmup": {"updates": 100, "games": 8},
                    "league": {"every": 1, "start": True},
                    **changes,
                }
            ),
        )
        return play_matrix({"own": tmp_path / folder}, {}, pairs, games=20, seed=1, starts={"start": "own"})

    untrained_rows = rows_of("untrained", learner={"learning_rate": 0.0})
    assert [(row["first"], row["second"]) for row in untrained_rows] == pairs
    assert len({json.dumps([row["won"], row["legal"]]) for row in untrained_rows}) == 1
    trained_rows = rows_of("moved", learner={"learning_rate": 0.1})
    assert (
        trained_rows[3]["legal"] == untrained_rows[3]["legal"]
        and trained_rows[2]["legal"] != untrained_rows[2]["legal"]
    )
    assert trained_rows[0]["legal"] != trained_rows[3]["legal"] != trained_rows[1]["legal"]
    run(tmp_path / "none", config_of())
    with pytest.raises(UnknownNameError, match="past-000000"):
        play_matrix({"own": tmp_path / "none"}, {}, pairs, games=2, seed=1, starts={"start": "own"})


def test_runs_of_two_games_are_refused(tmp_path):
    run(tmp_path / "one", config_of())
    run(tmp_path / "two", config_of(rounds=2))
    with pytest.raises(ConfigError, match=r"cross play: two was trained in .*'rounds': 2.* and one in .*'rounds': 1"):
        play_matrix({"one": tmp_path / "one", "two": tmp_path / "two"}, {}, [("one", "two")], games=2, seed=0)


def test_arms_can_begin_from_other_arms_and_play_initial_weights():
    arms = {"first": ("werewolf/tiny", ()), "then it": ("werewolf/tiny", ("steps=2",))}
    setting = {"seeds": 2, "arms": list(arms), "games": 3, "changes": []}
    options = {"always": (), "bots": {}, "pairs": [("then it", "start")], "measure": study.run_figures}
    cells = crossed.cells(setting, arms, **options, parents={"then it": "first"}, starts={"start": "then it"})
    first_run, second_run, matches = cells[3:]
    assert second_run.after == (first_run.key,) == (("first", 1),) and matches.after == (("first", 1), ("then it", 1))
    assert second_run.path_words == ("model.name={}/../first-1/model", "--run", "{}", "--overwrite")
    assert first_run.path_words == second_run.path_words[1:]
    assert first_run.measure is not study.run_figures and second_run.measure is study.run_figures
    spec = json.loads(matches.command[3])
    assert spec["starts"] == {"start": "then it"} and spec["runs"] == {"first": "first-1", "then it": "then-it-1"}


@pytest.mark.parametrize("shares", [1, 2, 3])
def test_matches_are_split_into_cells_and_each_row_has_its_result(shares):
    arms = {"a": ("werewolf/tiny", ())}
    pairs = [(wolf, village) for wolf in ("a", "b", "c") for village in ("b", "c")][:5]
    setting = {"seeds": 2, "arms": ["a"], "games": 3, "changes": []}
    cells = crossed.cells(
        setting,
        arms,
        always=(),
        bots={"b": "random", "c": "random"},
        pairs=pairs,
        measure=study.run_figures,
        shares=shares,
    )
    matches = [cell for cell in cells if cell.key[0] == MATRIX]
    assert len(matches) == 2 * shares == len({cell.folder for cell in matches}) and all(
        cell.after == (("a", cell.key[1]),) for cell in matches
    )
    results = {cell.key: {"found": {"x": 1.0}, "seconds": 1.0} for cell in cells if cell.key[0] != MATRIX}
    for cell in matches:
        pairs_of_cells = [tuple(pair) for pair in json.loads(cell.command[3])["pairs"]]
        results[cell.key] = {"found": [{"won": pairs.index(pair) + 0.5 * cell.key[1]} for pair in pairs_of_cells]}
    rows = crossed.rows(
        setting, results, pairs=pairs, labels=lambda pair: {"pair": pair}, figures=lambda match: {"won": match["won"]}
    )
    values = {row["pair"]: row["values"]["won"] for row in rows if "pair" in row}
    assert values == {pair: {"0": index, "1": index + 0.5} for index, pair in enumerate(pairs)}


def test_all_arms_play_one_game_equally_often():
    bases, games = [], set()
    cells = {cell.key: cell for cell in study.cells(study.STUDY.setting)}
    for arm, (recipe, overrides) in study.ARMS.items():
        config = resolve(apply_overrides(load_recipe(recipe), [*study.ALWAYS, *overrides]))
        environment, player_needs = read_needs(config)
        bases.append(environment)
        if arm in (study.START, study.CHOOSING):
            assert config.learner.learning_rate == 0.0 and config.steps == 1
        else:
            games.add((config.steps, config.rollout.games_per_step))
        initial_arm = study.BEGINS.get(arm)  # the run of this seed begins with the exported weights of that arm
        assert bool(initial_arm) == (not config.warmup.updates) and initial_arm in (None, study.START, study.CHOOSING)
        folder, needed_cells = cells[arm, 1].path_words, cells[arm, 1].after
        assert needed_cells == (((initial_arm, 1),) if initial_arm else ())
        name = f"{initial_arm}-1".replace(" ", "-")
        assert (folder[0] == f"model.name={{}}/../{name}/model") == bool(initial_arm) and ("--run" in folder[:2])
        assert not initial_arm or cells[initial_arm, 1].folder == name
        assert (player_needs.candidates is not None) == arm.startswith("SLA")
        assert player_needs.deduces == (arm.startswith("SLA") and arm != study.SILENT)
    assert all(environment == bases[0] for environment in bases) and len(games) == 1
    assert bases[0].options["players"] == 7


def results(shares, seeds=2):
    """Return results in which wolves win half of the games, except for the given shares."""

    def share_of_wins(wolf, village, seed):
        win_share = shares.get((wolf, village), 0.5)
        return win_share[seed] if isinstance(win_share, tuple) else win_share

    setting = {**study.STUDY.setting, "seeds": seeds}
    cells = {}
    for seed in range(seeds):
        for arm in study.ARMS:
            cells[arm, seed] = {
                "found": {"legal replies": 0.75, "readable replies": 0.6, "right roles": 0.5},
                "seconds": 60.0,
            }
        pairs = study._pairs(list(study.ARMS))
        cells[MATRIX, seed, 0] = {
            "found": [
                {"first": wolf, "second": village, "won": share_of_wins(wolf, village, seed) + 0.02 * seed}
                for wolf, village in pairs
            ]
        }
    rows = study.rows(setting, cells)
    assert not any(errors_of_row(row) for row in rows)
    return Results({"rows": rows})


def test_the_effect_of_a_part_is_the_loss_of_wins_without_it():
    arm = "SLA, no population"
    opponents = [name for name in study.MAIN if name not in (study.SLA, study.RANDOM)]
    wolf_shares = {(arm, opponent): 0.25 for opponent in opponents}  # shares of the arm as wolves
    table = {line.split(" | ")[0].strip("| "): line for line in page.parts(results(wolf_shares)).splitlines()}
    assert table[arm] == f"| {arm} | 0.25 [0.25, 0.25] | 0.00 [0.00, 0.00] | 0.12 [0.12, 0.12] | 0.00 | held |"
    assert table["LSPO, one step of CFR"].endswith("| 0.00 [0.00, 0.00] | 1.00 | not decided |")
    village_shares = {(opponent, arm): 0.25 for opponent in opponents}  # shares of wolves against the arm's village
    assert "| -0.12 [-0.12, -0.12] | 0.00 | not held: it wins more |" in page.parts(results(village_shares))
