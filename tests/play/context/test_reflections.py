import hypothesis.strategies as st
import pytest
from hypothesis import given

from sparring.config import resolve
from sparring.config.plugins.registry import bind
from sparring.core.errors import ContextError
from sparring.core.records import Observation
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.play.context.base import Ledger
from sparring.play.context.full import full
from sparring.play.context.reflections import reflections
from sparring.play.players.base import Reply
from sparring.testing import context_seen
from sparring.testing.context import Letters

ROUNDS = {"environment": {"name": "rock_paper_scissors"}, "attempts": 3}


def course(*turns):
    """Return a question: each of ``turns`` is (attempt, whether it is a note); the last one is due."""
    seen = context_seen(*map(str, range(len(turns))))
    observations = [
        Observation(prompt=str(n), key="", attempt=attempt, note=note) for n, (attempt, note) in enumerate(turns)
    ]
    past = tuple(exchange._replace(observation=now) for exchange, now in zip(seen.past, observations, strict=False))
    return seen._replace(past=past, observation=observations[-1])


def numbers(window):
    return [int(exchange.prompt) for exchange in window.past]


def test_by_hand_three_attempts_of_two_turns():
    turns = [(0, False), (0, False), (0, True), (1, False), (1, False), (1, True), (2, False), (2, False)]
    windows = [numbers(reflections(course(*turns[: due + 1]))) for due in range(len(turns))]
    assert windows == [[], [0], [0, 1], [2], [2, 3], [2, 3, 4], [2, 5], [2, 5, 6]]


def test_by_hand_what_the_model_is_sent():
    ledger = Ledger(Letters(), bind("context", "reflections"))
    for text, attempt, note in (("x", 0, False), ("N", 0, True), ("y", 1, False), ("z", 1, False)):
        ledger.ask(text, Observation(prompt=text, key="", attempt=attempt, note=note))
        number, ids = ledger.conversation, ledger.ids
        ledger.record(Reply(text="a", ids=(97, 2), logprobs=(0.0, 0.0)))
    n, y, z = map(ord, "Nyz")
    assert (number, ids) == (1, (0, n, 1, 97, 2, y, 1, 97, 2, z, 1))


@given(st.integers(0, 10))
def test_in_one_attempt_it_is_full(count):
    seen = course(*[(0, False)] * (count + 1))
    assert reflections(seen) == full(seen)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=10))
def test_nothing_else_of_earlier_attempts_is_shown(steps):
    attempt, turns = 0, []
    for step, note in steps:
        turns.append((attempt, note))
        attempt += step * note
    seen = course(*turns)
    for exchange in reflections(seen).past:
        assert exchange.observation.note or exchange.observation.attempt == seen.observation.attempt
    assert set(numbers(reflections(seen))) >= {number for number, (_, note) in enumerate(turns[:-1]) if note}


def test_in_trials_each_attempt_is_a_conversation_that_begins_with_the_notes(table, lawful):
    trials = table("trial", ROUNDS, {"name": "reflections"})
    episodes = trials.play(6)
    lawful(trials, episodes)
    for episode in episodes:
        first_seat = [turn for turn in episode.turns if turn.seat == 0]
        assert [turn.conversation for turn in first_seat] == [turn.attempt for turn in first_seat]
        notes = [turn for turn in first_seat if turn.prompt.endswith("reflect")]
        assert len(notes) == 2
        last = trials.text(first_seat[-1].segments[0].ids)
        for note in notes:
            assert (
                f"{note.prompt} <ask> {trials.text(note.segments[-1].ids if not note.truncated else note.segments[-2].ids)}"
                in last
            )
        # the other seat, which remembers nothing, begins anew at each attempt as the environment asks
        others = [trials.text(turn.segments[0].ids) for turn in episode.turns if turn.seat == 1]
        assert len(others) == 3 and all(text.startswith("<begin>") and text.count("<ask>") == 1 for text in others)


def test_where_the_environment_tells_the_notes_itself_it_is_full(table):
    plays = [table("trial", {**ROUNDS, "memory": "notes"}, {"name": name}).play(4) for name in ("full", "reflections")]
    assert plays[0] == plays[1]


@pytest.mark.parametrize(
    "environment",
    [
        {"name": "kuhn_poker"},
        {"name": "trial", "options": {**ROUNDS, "reflect": False}},
        {"name": "trial", "options": {**ROUNDS, "attempts": 1}},
    ],
)
def test_without_notes_it_is_refused(environment):
    config = {
        "environments": [environment],
        "context": {"name": "reflections"},
        "model": {"hidden_size": 8, "heads": 1},
    }
    with pytest.raises(ContextError, match=f"the notes of earlier attempts, and {environment['name']} has no notes"):
        LocalEngine(resolve(config))


@pytest.mark.parametrize("outer", ["tools", "talk"])
def test_a_trial_within_another_environment_has_notes_too(outer):
    inside = {"name": outer, "options": {"environment": {"name": "trial", "options": ROUNDS}}}
    config = {"environments": [inside], "context": {"name": "reflections"}, "model": {"hidden_size": 8, "heads": 1}}
    assert LocalEngine(resolve(config)).policies["main"].context.plugin.name == "reflections"


@pytest.mark.parametrize(("game", "has"), [("coin_game", False), ("kuhn_poker", False), ("trial", True)])
def test_notes_are_those_of_a_trial_and_not_how_a_game_of_openspiel_tells_its_events(game, has):
    for name, options in (
        (game, {}),
        ("repeated", {"environment": {"name": game}}),
        ("trial", {"environment": {"name": game}, "reflect": False}),
    ):
        assert getattr(make_game(name, options=options), "notes", False) is has, name
