import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparring.config import resolve
from sparring.core.rng import Stream
from sparring.engine.local import LocalEngine
from sparring.environments import minesweeper
from sparring.environments.catalogue import configured_game, make_game
from sparring.environments.sudoku.solver import reference
from sparring.league.seating import arms, step_specs
from sparring.measure.initial_states import SeenInitialStates, measured_starts
from sparring.measure.matches import play_matches
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


def run(*games, **changes):
    config = resolve({"environments": [{"name": game} if isinstance(game, str) else game for game in games], **changes})
    return config, [configured_game(section) for section in config.environments]


def seen_by(*games, **changes):
    return SeenInitialStates(*run(*games, **changes))


def starts_of(column, count=60, seed=0):
    root, game = Stream.from_seed(seed), column.game
    return [game.start_of(game.reset(column.deal(root.child(number), number))) for number in range(count)]


@pytest.mark.parametrize("name", SMALL)
@settings(max_examples=3, deadline=None)
@given(bank=st.integers(0, 2**31 - 1), seed=st.integers(0, 99))
def test_no_unseen_start_is_one_of_training(name, bank, seed):
    options, labels = SMALL[name]
    known, (game,) = run({"name": name, "options": {**options, "bank": bank}})
    columns = measured_starts(game, SeenInitialStates(known, [game]))
    assert tuple(column.label for column in columns) == labels
    trained = {game.start_of(game.reset(Stream.from_seed(seed).child("own").child(number))) for number in range(300)}
    assert trained <= game.starts()
    assert not game.starts() & set(starts_of(columns[0], seed=seed))
    assert set(starts_of(columns[1], seed=seed)) <= game.starts()


def test_starts_are_told_by_what_they_hold_and_not_by_their_number():
    game, again = (
        make_game("sudoku", options={"blanks": 1, "puzzles": 20, "bank": 3, "wrong": wrong})
        for wrong in ("ends", "continues")
    )
    assert game.starts() == again.starts()
    assert len(game.starts()) > 15
    assert not game.starts() & make_game("sudoku", options={"blanks": 2, "puzzles": 20, "bank": 3}).starts()


@pytest.mark.parametrize(
    "section",
    [
        {"name": "tic_tac_toe"},
        {"name": "kuhn_poker"},
        {"name": "mastermind"},  # all codes
        {"name": "urn", "options": {"sets": 1}},  # not told, so it can only be learnt by heart
        {"name": "sudoku", "options": {"puzzle": "1.3. 34.. 21.. .3.1"}},
        {
            "name": "minesweeper",
            "options": {"rows": 3, "columns": 3, "mines": 1, "layouts": 2000},
        },  # each layout is in the bank
    ],
    ids=lambda section: section["name"],
)
def test_where_there_are_no_other_starts_it_is_all(section):
    config, (game,) = run(section)
    assert [(column.label, column.game) for column in measured_starts(game, SeenInitialStates(config, [game]))] == [
        ("all", game)
    ]


def test_a_bank_that_was_not_trained_on_is_unseen_but_for_the_puzzles_it_shares():
    section = {
        "name": "sudoku",
        "options": {"blanks": 1, "puzzles": 4000, "wrong": "continues"},
    }  # of 4,608 puzzles with one blank
    training = seen_by(section)
    other = make_game("sudoku", options={**section["options"], "puzzles": 50, "bank": 1})
    shared = training.of(other) & other.starts()
    assert shared
    unseen, seen = measured_starts(other, training)
    assert (unseen.label, seen.label) == ("unseen", "seen")
    assert not set(starts_of(unseen)) & training.of(other)
    assert seen.game.starts() == training.of(other)  # the column beside is of the training's own bank
    assert [column.label for column in measured_starts(make_game("zebra"), training)] == ["unseen"]
    assert [column.label for column in measured_starts(make_game("tic_tac_toe"), SeenInitialStates(None))] == ["all"]


def test_a_game_of_weight_0_is_seen_only_if_warm_up_met_it():
    section = {"name": "sudoku", "label": "held", "options": {"blanks": 3, "puzzles": 8}, "weight": 0}
    cold, warm = (
        run({"name": "kuhn_poker"}, section, warmup={"updates": 0}),
        run({"name": "kuhn_poker"}, section, warmup={"updates": 1}),
    )
    assert [column.label for column in measured_starts(cold[1][1], SeenInitialStates(*cold))] == ["unseen"]
    assert [column.label for column in measured_starts(warm[1][1], SeenInitialStates(*warm))] == ["unseen", "seen"]


@pytest.mark.parametrize("updates", [0, 1])
def test_fixed_deals_are_left_out_and_those_of_warm_up_too(updates):
    small = {"model": {"hidden_size": 8, "layers": 1, "heads": 1}, "warmup": {"updates": updates, "games": 4}}
    config = resolve(
        {
            "environments": [{"name": "leduc_poker"}],
            "rollout": {"starts": 5, "games_per_step": 16, "group_size": 4},
            **small,
        }
    )
    engine = LocalEngine(config)
    game, training = engine.environments[0][0], SeenInitialStates(config, [engine.environments[0][0]])
    unseen, seen = measured_starts(game, training)
    request = {
        "rollout": config.rollout,
        "matchmaker": Methods.of(config).matchmaker,
        "members": (),
        "root": engine.root,
    }
    specs = [spec for step in range(8) for spec in step_specs(step, games=engine.environments, progress=0.0, **request)]
    dealt = {game.start_of(game.reset(spec.deal)) for spec in specs}
    assert len(arms(engine.environments, 5)) == 5
    assert set(starts_of(seen)) == dealt
    assert dealt <= training.of(game)
    assert (dealt < training.of(game)) == (updates > 0)
    assert not set(starts_of(unseen)) & training.of(game)


def test_deals_are_as_they_were_where_nothing_is_held_out():
    config, (game,) = run("kuhn_poker")
    (column,) = measured_starts(game, SeenInitialStates(config, [game]))
    stream = Stream.from_seed(5)
    assert column.deal(stream, 0).uniform(0) == stream.child("deal").uniform(0)


def test_a_bank_longer_than_there_are_starts_is_made_only_until_it_has_them_all(monkeypatch):
    keys = []
    monkeypatch.setattr(minesweeper, "order_of", lambda *key, of=minesweeper.order_of: keys.append(key) or of(*key))
    game = make_game("minesweeper", options={"rows": 3, "columns": 3, "mines": 1, "layouts": 100_000})
    assert len(game.starts()) == 9 * 8  # where the mine is, and where it goes if it is the first cell revealed
    assert len(keys) < 2000


class ByHeart(TextAgent):
    def __init__(self, bank):
        super().__init__("by heart")
        self.bank = bank

    def choose(self, state, seat, stream):
        table = state.spiel.table
        right = reference(state) if table.start in self.bank else ()
        wrong = (word for word in state.legal_actions() if word not in reference(state))
        return next((word for word in right if word in state.legal_actions()), None) or next(wrong)


def test_what_is_learnt_by_heart_is_no_success():
    config, (game,) = run({"name": "sudoku", "options": {"blanks": 2, "puzzles": 12, "wrong": "continues"}})
    agent, stream = ByHeart(game.starts()), Stream.from_seed(1)
    success = {
        starts.label: play_matches(game, agent, agent, games_per_seat=30, stream=stream, starts=starts)
        .seats[0]
        .success.mean
        for starts in measured_starts(game, SeenInitialStates(config, [game]))
    }
    assert success == {"unseen": 0.0, "seen": 1.0}
