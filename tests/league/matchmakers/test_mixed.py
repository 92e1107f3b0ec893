import dataclasses

import pytest

from sparring.config import resolve
from sparring.core.records import LEARNER
from sparring.engine.local import LocalEngine
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

STYLES = ("conservative", "aggressive", "intermediate")
GROUPS, SIZE = 24, 4


def played(names):
    bots = {name: {"name": "kuhn_bot", "style": style} for name, style in zip(names, STYLES, strict=True)}
    options = {"environment": {"name": "kuhn_poker"}, "carry": ["first", "second"], "reflect": False, "reveal": True}
    shares = dict(zip(names, (0.3, 0.3, 0.4), strict=True))
    matchmaker = {"name": "mixed", "past": 0.0, "bots": shares}
    config = resolve({
        "name": "m", "steps": 2, "environments": [{"name": "trial", "options": options, "illegal": {"rule": "random", "penalty": 0.5}}],
        "model": {"hidden_size": 16, "layers": 1, "context": 96},
        "rollout": {"games_per_step": GROUPS * SIZE, "group_size": SIZE}, "matchmaker": matchmaker, "bots": bots, "threads": 1, "warmup": {"updates": 0},
    })  # fmt: skip
    engine = LocalEngine(config)
    return engine, play_round(config, engine, Methods.of(config), RunState()).episodes


def opponents(episodes):
    by_group = {}
    for episode in episodes:
        by_group.setdefault(episode.group_id, []).append(
            tuple(str(player) for player in episode.players if player != LEARNER)
        )
    return by_group


def nameless(episode):
    turns = tuple(turn._replace(agent="") for turn in episode.turns)
    return dataclasses.replace(episode, agents=(), players=(LEARNER, LEARNER), turns=turns)


@pytest.fixture(scope="module")
def named():
    return played(("tight", "wild", "middle"))


def test_all_plays_of_a_group_meet_one_opponent_whose_name_is_recorded(named):
    _, episodes = named
    groups = opponents(episodes)
    assert len(groups) == GROUPS and all(len(plays) == SIZE and len(set(plays)) == 1 for plays in groups.values())
    seated = [plays[0] for plays in groups.values()]
    assert set(seated) == {("bot-tight",), ("bot-wild",), ("bot-middle",)}
    assert all(episode.agents == tuple(map(str, episode.players)) for episode in episodes)
    assert {sum(episode.trained) for episode in episodes} == {1}


def test_the_learner_is_told_nothing_of_who_it_meets(named):
    _, episodes = named
    _, others = played(("zeta", "eta", "theta"))
    assert [e.players for e in episodes] != [e.players for e in others]
    assert [nameless(e) for e in episodes] == [nameless(e) for e in others]
    words = {word for e in episodes for turn in e.turns for word in f"{turn.prompt} {turn.reply}".split()}
    assert not words & {"tight", "wild", "middle", "kuhn_bot", "mixed", *STYLES} and "shows" in words


def test_the_bot_plays_its_style_in_every_attempt(named):
    _, episodes = named
    seen = 0
    for episode in episodes:
        (seat,) = (seat for seat, player in enumerate(episode.players) if player != LEARNER)
        for turn in episode.turns:
            if turn.seat == seat and str(episode.players[seat]) == "bot-tight":
                card = turn.state_key.rsplit("|", 1)[-1][0]
                assert turn.action == ("bet" if card == "2" else "pass")
                seen += turn.attempt > 0
    assert seen > 20
