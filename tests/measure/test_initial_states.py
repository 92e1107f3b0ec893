import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments import minesweeper
from sparring.environments.catalogue import configured_game, make_game
from sparring.environments.sudoku.solver import reference
from sparring.league.seating import make_arms, step_specs
from sparring.measure.initial_states import SeenInitialStates, all_starts, measured_starts
from sparring.measure.matches import intervals_of, play_matches
from sparring.measure.references import compare_with_uniform
from sparring.play.players.base import TextAgent
from sparring.run.step import Methods

SMALL = {
    "sudoku": ({"blanks": 5, "puzzles": 40}, ("unseen", "seen")),
    "zebra": ({"houses": 2, "attributes": 2, "puzzles": 10}, ("unseen", "seen")),
    "sokoban": ({"rows": 4, "columns": 4, "walls": 0, "shortest": 1, "longest": 3, "rooms": 20}, ("unseen", "seen")),
    "minesweeper": ({"rows": 3, "columns": 3, "mines": 2, "layouts": 60}, ("unseen", "seen")),
    "battleship_hunt": ({"rows": 3, "columns": 3, "fleet": "3 2", "shots": 6, "layouts": 20}, ("unseen", "seen")),
    "mastermind": ({"pegs": 2, "colours": 3, "codes": 6}, ("unseen", "seen")),
    "twenty_questions": ({"objects": 2, "attributes": 2, "values": 2, "tables": 3}, ("unseen", "seen")),
    "urn": ({"sets": 6}, ("unseen", "seen")),
}


def config_and_games(*games, **changes):
    """Return the configuration of a run with these environments, and the environments."""
    config = resolve({"environments": [{"name": game} if isinstance(game, str) else game for game in games], **changes})
    return config, [configured_game(section) for section in config.environments]


def seen_initial_states(*games, **changes):
    return SeenInitialStates(*config_and_games(*games, **changes))


def sampled_starts(column, count=60, seed=0):
    root, game = Stream.from_seed(seed), column.game
    return [game.start_of(game.reset(column.deal(root.child(index), index))) for index in range(count)]


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=3, deadline=None)
@given(bank=st.integers(0, 2**31 - 1), seed=st.integers(0, 99))
def test_no_unseen_initial_state_occurs_in_training(name, bank, seed):
    options, labels = SMALL[name]
    config, (game,) = config_and_games({"name": name, "options": {**options, "bank": bank}})
    columns = measured_starts(game, SeenInitialStates(config, [game]))
    assert tuple(column.label for column in columns) == labels
    training_states = {
        game.start_of(game.reset(Stream.from_seed(seed).child("own").child(index))) for index in range(300)
    }
    assert training_states <= game.starts()
    assert not game.starts() & set(sampled_starts(columns[0], seed=seed))
    assert set(sampled_starts(columns[1], seed=seed)) <= game.starts()


def test_initial_states_are_compared_by_content_not_by_number():
    game, other_game = (
        make_game("sudoku", options={"blanks": 1, "puzzles": 20, "bank": 3, "wrong": wrong_rule})
        for wrong_rule in ("ends", "continues")
    )
    assert game.starts() == other_game.starts()
    assert len(game.starts()) > 15
    assert not game.starts() & make_game("sudoku", options={"blanks": 2, "puzzles": 20, "bank": 3}).starts()


@pytest.mark.parametrize(
    "section",
    [
        {"name": "tic_tac_toe"},
        {"name": "kuhn_poker"},
        {"name": "mastermind"},  # all codes
        {"name": "urn", "options": {"sets": 1}},  # the player never observes this state, so it could only memorise it
        {"name": "sudoku", "options": {"puzzle": "1.3. 34.. 21.. .3.1"}},
        {
            "name": "minesweeper",
            "options": {"rows": 3, "columns": 3, "mines": 1, "layouts": 2000},
        },  # every layout is in the bank
    ],
    ids=lambda section: section["name"],
)
def test_without_unseen_initial_states_all_are_measured(section):
    config, (game,) = config_and_games(section)
    assert [(column.label, column.game) for column in measured_starts(game, SeenInitialStates(config, [game]))] == [
        ("all", game)
    ]


def test_a_bank_without_training_is_unseen_except_for_shared_puzzles():
    section = {
        "name": "sudoku",
        "options": {"blanks": 1, "puzzles": 4000, "wrong": "continues"},
    }  # 4,000 of the 4,608 puzzles with one blank
    training = seen_initial_states(section)
    other_bank = make_game("sudoku", options={**section["options"], "puzzles": 50, "bank": 1})
    shared_puzzles = training.states_of(other_bank) & other_bank.starts()
    assert shared_puzzles
    unseen_column, seen_column = measured_starts(other_bank, training)
    assert (unseen_column.label, seen_column.label) == ("unseen", "seen")
    assert not set(sampled_starts(unseen_column)) & training.states_of(other_bank)
    assert seen_column.game.starts() == training.states_of(other_bank)  # the seen column has the shared puzzles only
    assert [column.label for column in measured_starts(make_game("zebra"), training)] == ["unseen"]
    assert [column.label for column in measured_starts(make_game("tic_tac_toe"), SeenInitialStates(None))] == ["all"]


def test_a_game_of_weight_0_is_seen_only_if_used_in_warm_up():
    section = {"name": "sudoku", "label": "held", "options": {"blanks": 3, "puzzles": 8}, "weight": 0}
    without_warm_up, with_warm_up = (
        config_and_games({"name": "kuhn_poker"}, section, warmup={"updates": 0}),
        config_and_games({"name": "kuhn_poker"}, section, warmup={"updates": 1}),
    )
    assert [column.label for column in measured_starts(without_warm_up[1][1], SeenInitialStates(*without_warm_up))] == [
        "unseen"
    ]
    assert [column.label for column in measured_starts(with_warm_up[1][1], SeenInitialStates(*with_warm_up))] == [
        "unseen",
        "seen",
    ]


@pytest.mark.parametrize("updates", [0, 1])
def test_fixed_deals_and_warm_up_deals_are_not_unseen(updates):
    small_run = {"model": {"hidden_size": 8, "layers": 1, "heads": 1}, "warmup": {"updates": updates, "games": 4}}
    config = resolve(
        {
            "environments": [{"name": "leduc_poker"}],
            "rollout": {"starts": 5, "games_per_step": 16, "group_size": 4},
            **small_run,
        }
    )
    engine = LocalEngine(config)
    game, training = engine.environments[0][0], SeenInitialStates(config, [engine.environments[0][0]])
    unseen_column, seen_column = measured_starts(game, training)
    request = {
        "rollout": config.rollout,
        "matchmaker": Methods.of(config).matchmaker,
        "members": (),
        "root": engine.root,
    }
    specs = [spec for step in range(8) for spec in step_specs(step, games=engine.environments, progress=0.0, **request)]
    training_starts = {game.start_of(game.reset(spec.deal)) for spec in specs}
    assert len(make_arms(engine.environments, 5)) == 5
    assert set(sampled_starts(seen_column)) == training_starts
    assert training_starts <= training.states_of(game)
    assert (training_starts < training.states_of(game)) == (updates > 0)
    assert not set(sampled_starts(unseen_column)) & training.states_of(game)


def test_without_held_out_states_deals_do_not_change():
    config, (game,) = config_and_games("kuhn_poker")
    (column,) = measured_starts(game, SeenInitialStates(config, [game]))
    stream = Stream.from_seed(5)
    assert column.deal(stream, 0).uniform(0) == stream.child("deal").uniform(0)


def test_a_bank_larger_than_the_number_of_initial_states_stops_early(monkeypatch):
    keys = []
    monkeypatch.setattr(minesweeper, "order_of", lambda *key, of=minesweeper.order_of: keys.append(key) or of(*key))
    game = make_game("minesweeper", options={"rows": 3, "columns": 3, "mines": 1, "layouts": 100_000})
    assert len(game.starts()) == 9 * 8  # 9 cells of the mine, and 8 cells where it moves if the first reveal hits it
    assert len(keys) < 2000


class MemorisingPlayer(TextAgent):
    def __init__(self, bank):
        super().__init__("memorising")
        self.bank = bank

    def choose(self, state, seat, stream):
        table = state.spiel.table
        solution = reference(state) if table.start in self.bank else ()
        wrong_actions = (word for word in state.legal_actions() if word not in reference(state))
        return next((word for word in solution if word in state.legal_actions()), None) or next(wrong_actions)


def test_memorised_puzzles_do_not_count_as_unseen_success():
    config, (game,) = config_and_games(
        {"name": "sudoku", "options": {"blanks": 2, "puzzles": 12, "wrong": "continues"}}
    )
    agent, stream = MemorisingPlayer(game.starts()), Stream.from_seed(1)
    success = {
        starts.label: play_matches(game, agent, agent, games_per_seat=30, stream=stream, starts=starts)
        .seats[0]
        .success.mean
        for starts in measured_starts(game, SeenInitialStates(config, [game]))
    }
    assert success == {"unseen": 0.0, "seen": 1.0}


def test_success_is_left_out_where_the_highest_payoff_is_unknown():
    (game,) = config_and_games({"name": "sudoku", "options": {"blanks": 2, "puzzles": 12}})[1]
    agent, stream = MemorisingPlayer(game.starts()), Stream.from_seed(1)
    report = play_matches(game, agent, agent, games_per_seat=2, stream=stream)
    assert ": success 1.000" in compare_with_uniform(game, report, stream, all_starts(game))
    known = report.seats[0]
    assert set(intervals_of(known)) == {"success", "return"} and known.success.mean == 1.0
    game.max_utility = math.inf
    report = play_matches(game, agent, agent, games_per_seat=2, stream=stream)
    unknown = report.seats[0]
    assert set(intervals_of(unknown)) == {"return"}
    assert unknown.mean_return == known.mean_return
    assert ": mean return" in compare_with_uniform(game, report, stream, all_starts(game))
