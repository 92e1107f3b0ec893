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


def request_after(*turns):
    """Return the request of the last of these turns; each is (attempt, whether it is a note)."""
    request = context_seen(*map(str, range(len(turns))))
    observations = [
        Observation(prompt=str(index), key="", attempt=attempt, note=note)
        for index, (attempt, note) in enumerate(turns)
    ]
    past = tuple(
        exchange._replace(observation=observation)
        for exchange, observation in zip(request.past, observations, strict=False)
    )
    return request._replace(past=past, observation=observations[-1])


def exchange_numbers(window):
    return [int(exchange.prompt) for exchange in window.past]


def test_windows_of_three_attempts_by_hand():
    turns = [(0, False), (0, False), (0, True), (1, False), (1, False), (1, True), (2, False), (2, False)]
    windows = [exchange_numbers(reflections(request_after(*turns[: index + 1]))) for index in range(len(turns))]
    assert windows == [[], [0], [0, 1], [2], [2, 3], [2, 3, 4], [2, 5], [2, 5, 6]]


def test_the_ids_sent_to_the_model_by_hand():
    ledger = Ledger(Letters(), bind("context", "reflections"))
    for text, attempt, note in (("x", 0, False), ("N", 0, True), ("y", 1, False), ("z", 1, False)):
        ledger.ask(text, Observation(prompt=text, key="", attempt=attempt, note=note))
        conversation, ids = ledger.conversation, ledger.ids
        ledger.record(Reply(text="a", ids=(97, 2), logprobs=(0.0, 0.0)))
    note_id, y_id, z_id = map(ord, "Nyz")
    assert (conversation, ids) == (1, (0, note_id, 1, 97, 2, y_id, 1, 97, 2, z_id, 1))


@given(st.integers(0, 10))
def test_within_one_attempt_it_equals_full(count):
    request = request_after(*[(0, False)] * (count + 1))
    assert reflections(request) == full(request)


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=10))
def test_only_notes_of_earlier_attempts_are_shown(steps):
    attempt, turns = 0, []
    for step, note in steps:
        turns.append((attempt, note))
        attempt += step * note
    request = request_after(*turns)
    for exchange in reflections(request).past:
        assert exchange.observation.note or exchange.observation.attempt == request.observation.attempt
    assert set(exchange_numbers(reflections(request))) >= {
        number for number, (_, note) in enumerate(turns[:-1]) if note
    }


def test_in_a_trial_each_attempt_is_a_conversation_that_begins_with_the_notes(context_game, check_ids_sent):
    trial_game = context_game("trial", ROUNDS, {"name": "reflections"})
    episodes = trial_game.play(6)
    check_ids_sent(trial_game, episodes)
    for episode in episodes:
        turns_of_first_seat = [turn for turn in episode.turns if turn.seat == 0]
        assert [turn.conversation for turn in turns_of_first_seat] == [turn.attempt for turn in turns_of_first_seat]
        notes = [turn for turn in turns_of_first_seat if turn.prompt.endswith("reflect")]
        assert len(notes) == 2
        last_prompt = trial_game.text(turns_of_first_seat[-1].segments[0].ids)
        for note in notes:
            assert (
                f"{note.prompt} <ask> {trial_game.text(note.segments[-1].ids if not note.truncated else note.segments[-2].ids)}"
                in last_prompt
            )
        # the other seat has no memory, so each attempt is a new conversation
        prompts_of_second_seat = [trial_game.text(turn.segments[0].ids) for turn in episode.turns if turn.seat == 1]
        assert len(prompts_of_second_seat) == 3 and all(
            text.startswith("<begin>") and text.count("<ask>") == 1 for text in prompts_of_second_seat
        )


def test_if_the_environment_repeats_the_notes_it_equals_full(context_game):
    episodes_by_context = [
        context_game("trial", {**ROUNDS, "memory": "notes"}, {"name": name}).play(4) for name in ("full", "reflections")
    ]
    assert episodes_by_context[0] == episodes_by_context[1]


@pytest.mark.parametrize(
    "environment",
    [
        {"name": "kuhn_poker"},
        {"name": "trial", "options": {**ROUNDS, "reflect": False}},
        {"name": "trial", "options": {**ROUNDS, "attempts": 1}},
    ],
)
def test_an_environment_without_notes_is_refused(environment):
    config = {
        "environments": [environment],
        "context": {"name": "reflections"},
        "model": {"hidden_size": 8, "heads": 1},
    }
    with pytest.raises(ContextError, match=f"the notes of earlier attempts, and {environment['name']} has no notes"):
        LocalEngine(resolve(config))


@pytest.mark.parametrize("outer", ["tools", "talk"])
def test_a_trial_inside_a_combinator_has_notes(outer):
    environment = {"name": outer, "options": {"environment": {"name": "trial", "options": ROUNDS}}}
    config = {
        "environments": [environment],
        "context": {"name": "reflections"},
        "model": {"hidden_size": 8, "heads": 1},
    }
    assert LocalEngine(resolve(config)).policies["main"].context.plugin.name == "reflections"


@pytest.mark.parametrize(("game", "has_notes"), [("coin_game", False), ("kuhn_poker", False), ("trial", True)])
def test_only_a_trial_has_notes(game, has_notes):
    for name, options in (
        (game, {}),
        ("repeated", {"environment": {"name": game}}),
        ("trial", {"environment": {"name": game}, "reflect": False}),
    ):
        assert getattr(make_game(name, options=options), "notes", False) is has_notes, name
