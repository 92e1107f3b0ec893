import time

import pytest

from sparring.config.plugins.guard import CallWatch
from sparring.core.errors import GameError, RolloutError
from sparring.core.records import ChatMessage, Observation
from sparring.core.rng import Stream
from sparring.environments.base import IllegalRule
from sparring.environments.foreign import complete_environment
from sparring.play.players.base import Reply
from sparring.play.rollout import play, rollout
from sparring.play.spec import EpisodeSpec
from tests.cases import every_case

ACTIONS = ("left", "right")


class Rules:
    roles, min_utility, max_utility, brief, max_turns = ("one", "two"), -1.0, 1.0, True, 6

    def __init__(self, rule="forfeit", **parts):
        self.name, self.illegal, self.parts = "faulty", IllegalRule(rule=rule, retries=1), parts

    def reset(self, stream):
        play = FaultyPlay(self.parts if stream.uniform(0) < 2 else {})
        if "reset" in self.parts:
            return self.parts["reset"](play)
        return play


class FaultyPlay:
    """Three moments at which both seats reply at once; the functions in ``parts`` replace methods."""

    def __init__(self, parts):
        self.parts, self.taken = parts, 0

    def _or(self, name, *args, otherwise):
        return self.parts[name](self, *args) if name in self.parts else otherwise

    @property
    def done(self):
        return self._or("done", otherwise=self.taken == 3)

    @property
    def returns(self):
        return self._or("returns", otherwise=(float(self.taken), 0.0))

    def due(self):
        return self._or("due", otherwise=() if self.taken == 3 else (0, 1))

    def legal(self, seat):
        return self._or("legal", seat, otherwise=ACTIONS)

    def observe(self, seat):
        return self._or("observe", seat, otherwise=Observation(prompt="say", key=f"{seat} {self.taken}"))

    def step(self, replies):
        self.taken += 1
        return self._or("step", replies, otherwise=None)


class FixedReply:
    renderer = None

    def __init__(self, text="left"):
        self.text = text

    def act(self, turns):
        return [Reply(text=self.text) for _ in turns]


def make_specs(*games, group_size=1, **fields):
    root = Stream.from_seed(0)
    shared_fields = {"deal": root, "seats": ("a", "a"), "trained": (True, True), **fields}
    groups = [(group, game) for group, game in enumerate(games) for _ in range(group_size)]
    return [
        EpisodeSpec(game=game, episode_id=number, group_id=group, stream=root.child(number), **shared_fields)
        for number, (group, game) in enumerate(groups)
    ]


def raise_error(*_):
    raise RuntimeError("broken")


def raise_config_error(*_):
    raise GameError("faulty: this reply is refused")


def at_second_moment(fault):
    """Return a part that has the fault only from the second moment on."""

    def faulty_part(play, *args):
        correct_values = {
            "due": (0, 1),
            "legal": ACTIONS,
            "observe": Observation(prompt="say", key="k"),
            "returns": (0.0, 0.0),
            "step": None,
            "done": False,
        }
        return fault[1] if play.taken else correct_values[fault[0]]

    return {fault[0]: faulty_part}


def play_with_fault(parts, *, text="left", retries=1, rule="forfeit"):
    """Play one group of a faulty environment and one of a correct one; return the episodes and counts."""
    games = [complete_environment("faulty", Rules(rule, **parts)), complete_environment("right", Rules())]
    games[1].name = "right"
    start_time = time.monotonic()
    with CallWatch(3):
        episodes, counts = rollout(
            make_specs(*games, group_size=2), {"a": FixedReply(text)}, retries=retries
        ).require_any()
    assert time.monotonic() - start_time < 20
    return episodes, counts


FAULTS = {
    **{
        f"{name} raises": {name: raise_error}
        for name in ("reset", "done", "returns", "due", "legal", "observe", "step")
    },
    **{f"{name} refuses": {name: raise_config_error} for name in ("reset", "due", "legal", "observe", "step")},
    "reset gives nothing": {"reset": lambda play: None},
    **{
        f"due gives {wrong!r}": {"due": lambda play, wrong=wrong: wrong}
        for wrong in ((), (2,), (-1,), (0, 0), (1, 0), None, 1, ("0",), (0.0,), (True,), (0, None))
    },
    **{
        f"legal gives {wrong!r}": {"legal": lambda play, seat, wrong=wrong: wrong}
        for wrong in (["left"], (), (1, 2), ("left", "left"), "left", {"left"}, ("left", None))
    },
    **{
        f"observe gives {wrong!r}": {"observe": lambda play, seat, wrong=wrong: wrong}
        for wrong in (
            None,
            "say",
            ("say", "key"),
            Observation(prompt=1, key="k"),
            Observation(prompt="say", key=None),
            Observation("say", "k", note=1),
            Observation("say", "k", prefill=3),
            Observation("say", "k", messages="text"),
            Observation("say", "k", messages=(3,)),
            Observation("say", "k", messages=(ChatMessage("user", None), ChatMessage("assistant", "b"))),
            Observation("say", "k", messages=(ChatMessage("user", "a"),)),
            Observation("say", "k", messages=(ChatMessage("assistant", "a"), ChatMessage("user", "b"))),
            Observation("say", "k", messages=(ChatMessage("tool", "a"), ChatMessage("assistant", "b"))),
            Observation(
                "say",
                "k",
                messages=(ChatMessage("user", "a"), ChatMessage("assistant", "b"), ChatMessage("system", "c")),
            ),
        )
    },
    **{
        f"returns are {wrong!r}": {"returns": lambda play, wrong=wrong: wrong}
        for wrong in (
            (),
            (1.0,),
            (1.0, 2.0, 3.0),
            (float("nan"), 0.0),
            (float("inf"), 0.0),
            None,
            1.0,
            ("1", "2"),
            (None, 0.0),
        )
    },
    **{
        f"later {name} is {wrong!r}": at_second_moment((name, wrong))
        for name, wrong in (("due", ()), ("due", (3,)), ("legal", ()), ("observe", None), ("returns", (0.0,)))
    },
}


@every_case("fault", FAULTS)
@every_case("rule", ["forfeit", "retry", "random"])
def test_the_group_of_a_faulty_play_is_dropped_and_the_other_is_complete(fault, rule, caplog):
    caplog.clear()
    episodes, counts = play_with_fault(FAULTS[fault], rule=rule)
    assert counts.dropped_groups == {0} and counts.retried == 2
    assert [(episode.game, episode.group_id, episode.returns) for episode in episodes] == [("right", 1, (3.0, 0.0))] * 2
    assert "faulty" in caplog.text


@pytest.mark.parametrize("name", ["reset", "done", "due", "legal", "observe", "step", "returns"])
def test_a_method_that_does_not_return_is_interrupted_and_not_repeated(name):
    def hang(*_):
        while True:
            time.sleep(0.01)

    games = [complete_environment("faulty", Rules(**{name: hang})), complete_environment("right", Rules())]
    with CallWatch(0.5):
        episodes, counts = rollout(make_specs(*games), {"a": FixedReply()})
    assert counts.dropped_groups == {0} and counts.retried == 0
    assert [episode.group_id for episode in episodes] == [1]


@pytest.mark.parametrize("rule", ["forfeit", "retry", "random"])
@pytest.mark.parametrize("text", ["left", "nothing"])
def test_an_endless_episode_is_truncated_at_max_turns(text, rule):
    episodes, counts = play_with_fault({"done": lambda play: False, "due": lambda play: (0, 1)}, text=text, rule=rule)
    assert not counts.dropped_groups
    assert all(
        len(episode.turns) <= 12 and (episode.cut or episode.forfeited_by is not None) for episode in episodes[:2]
    )


def test_without_a_list_of_legal_actions_any_text_is_played():
    episodes, counts = play_with_fault({"legal": lambda play, seat: None}, text="anything \ud800")
    assert not counts.dropped_groups
    assert [turn.action for turn in episodes[0].turns] == ["anything \ud800"] * 6
    assert [episode.forfeited_by for episode in episodes] == [None, None, 0, 0]


@pytest.mark.parametrize("max_turns", [0, -1, float("inf"), None, "6", True, 2.5])
def test_environments_without_a_limit_of_turns_are_refused(max_turns, monkeypatch, caplog):
    monkeypatch.setattr(Rules, "max_turns", max_turns)
    with pytest.raises(RolloutError, match="All 2 groups failed"):
        play_with_fault({"done": lambda play: False})
    assert "must be a whole number of at least 1" in caplog.text


def test_a_prefix_longer_than_the_episode_is_refused(caplog):
    episodes, _ = play_with_fault({})
    specs = make_specs(complete_environment("faulty", Rules()), prefix=(*episodes[0].turns, *episodes[0].turns))
    with CallWatch(3), pytest.raises(RolloutError):
        play(specs, {"a": FixedReply()}, retries=0)
    assert "take complete moments" in caplog.text and "Hung" not in caplog.text


@pytest.mark.parametrize("text", [1, b"left", ["left"]])
def test_the_action_read_from_a_reply_must_be_a_text_or_none(text, monkeypatch, caplog):
    monkeypatch.setattr(
        FaultyPlay, "read", lambda self, seat, reply, exact=False: self._or("read", otherwise=reply), raising=False
    )
    _, counts = play_with_fault({"read": lambda play: text})
    assert counts.dropped_groups == {0} and "read() returned" in caplog.text


def test_a_copy_that_raises_drops_only_its_group(monkeypatch):
    monkeypatch.setattr(FaultyPlay, "clone", lambda self: self._or("clone", otherwise=self), raising=False)
    games = [complete_environment("faulty", rules) for rules in (Rules(clone=raise_error), Rules())]
    num_judged = []
    judges = {"faulty": lambda states, streams: num_judged.extend(states) or [None] * len(states)}
    episodes, counts = rollout(make_specs(*games), {"a": FixedReply()}, retries=1, judges=judges)
    assert counts.dropped_groups == {0} and counts.retried == 1
    assert [episode.group_id for episode in episodes] == [1] and len(num_judged) == 6


def test_a_call_that_has_begun_no_episode_has_a_name_for_errors():
    from sparring.config.plugins.guard import PluginCall
    from sparring.play.rollout import _environment_name

    assert str(PluginCall(_environment_name)) == "environment"
