import dataclasses

import pytest

from sparring.config import resolve
from sparring.core.records import LEARNER
from sparring.engine.local import LocalEngine
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round

STYLES = ("conservative", "aggressive", "intermediate")
NUM_GROUPS, GROUP_SIZE = 24, 4


def engine_and_episodes(names):
    bots = {name: {"name": "kuhn_bot", "style": style} for name, style in zip(names, STYLES, strict=True)}
    options = {"environment": {"name": "kuhn_poker"}, "carry": ["first", "second"], "reflect": False, "reveal": True}
    shares = dict(zip(names, (0.3, 0.3, 0.4), strict=True))
    matchmaker = {"name": "mixed", "past": 0.0, "bots": shares}
    config = resolve({
        "name": "m", "steps": 2, "environments": [{"name": "trial", "options": options, "illegal": {"rule": "random", "penalty": 0.5}}],
        "model": {"hidden_size": 16, "layers": 1, "context": 96},
        "rollout": {"games_per_step": NUM_GROUPS * GROUP_SIZE, "group_size": GROUP_SIZE}, "matchmaker": matchmaker, "bots": bots, "threads": 1, "warmup": {"updates": 0},
    })  # fmt: skip
    engine = LocalEngine(config)
    return engine, play_round(config, engine, Methods.of(config), RunState()).episodes


def opponents_by_group(episodes):
    by_group = {}
    for episode in episodes:
        by_group.setdefault(episode.group_id, []).append(
            tuple(str(player) for player in episode.players if player != LEARNER)
        )
    return by_group


def without_names(episode):
    turns = tuple(turn._replace(agent="") for turn in episode.turns)
    return dataclasses.replace(episode, agents=(), players=(LEARNER, LEARNER), turns=turns)


@pytest.fixture(scope="module")
def named_play():
    return engine_and_episodes(("tight", "wild", "middle"))


def test_all_episodes_of_a_group_have_one_opponent_whose_name_is_stored(named_play):
    _, episodes = named_play
    groups = opponents_by_group(episodes)
    assert len(groups) == NUM_GROUPS and all(
        len(plays) == GROUP_SIZE and len(set(plays)) == 1 for plays in groups.values()
    )
    opponent_of_group = [plays[0] for plays in groups.values()]
    assert set(opponent_of_group) == {("bot-tight",), ("bot-wild",), ("bot-middle",)}
    assert all(episode.agents == tuple(map(str, episode.players)) for episode in episodes)
    assert {sum(episode.trained) for episode in episodes} == {1}


def test_prompts_do_not_reveal_the_opponent(named_play):
    _, episodes = named_play
    _, renamed_episodes = engine_and_episodes(("zeta", "eta", "theta"))
    assert [e.players for e in episodes] != [e.players for e in renamed_episodes]
    assert [without_names(e) for e in episodes] == [without_names(e) for e in renamed_episodes]
    words = {word for e in episodes for turn in e.turns for word in f"{turn.prompt} {turn.reply}".split()}
    assert not words & {"tight", "wild", "middle", "kuhn_bot", "mixed", *STYLES} and "shows" in words


def test_the_bot_plays_its_style_in_every_attempt(named_play):
    _, episodes = named_play
    num_checked = 0
    for episode in episodes:
        (seat,) = (seat for seat, player in enumerate(episode.players) if player != LEARNER)
        for turn in episode.turns:
            if turn.seat == seat and str(episode.players[seat]) == "bot-tight":
                card = turn.state_key.rsplit("|", 1)[-1][0]
                assert turn.action == ("bet" if card == "2" else "pass")
                num_checked += turn.attempt > 0
    assert num_checked > 20
