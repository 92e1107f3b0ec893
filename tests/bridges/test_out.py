"""Sparring's environments in the interfaces of PettingZoo, Gymnasium and TextArena."""

import importlib
import random
import re
import sys

import gymnasium
import numpy as np
import pytest
import textarena
from gymnasium.utils.env_checker import check_env
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

import sparring
from sparring.core.errors import ConfigError, GameError, UnknownNameError
from sparring.environments.bridges.pettingzoo import pettingzoo
from sparring.interop.gymnasium import GymnasiumEnv, actions_of
from sparring.interop.pettingzoo import aec_env, parallel_env
from sparring.interop.textarena import TextArenaEnv, register
from sparring.play.players.base import TextAgent
from sparring.play.players.scripted import scripted
from sparring.testing import check_environment
from tests.docs.loading import ROOT

# one seat after another; simultaneous, once and several times; both; one seat; free text
NAMES = (
    *("kuhn_poker", "tic_tac_toe", "rock_paper_scissors", "repeated", "werewolf"),
    *("sudoku", "bargain", "talk", "trial", "lookups"),
)
RETRY = {"rule": "retry", "retries": 1, "penalty": 0.5}


def decode(observation):
    return bytes(observation["observation"]).rstrip(b"\0").decode()


def facts(episode):
    """Return everything in a record that does not depend on the names of the players."""
    turns = [turn._replace(agent="") for turn in episode.turns]
    return turns, episode.returns, episode.seed, episode.forfeited_by, episode.cut, episode.environment


def episodes_at_random(name, *, plays=4, **options):
    environment = sparring.make_environment(name, **options)
    return sparring.play_episodes(environment, ["random"] * environment.num_seats, plays=plays, seed=3)


def replies_of(episode):
    """Return the replies of each seat, as lists that a replay empties."""
    replies = {seat: [] for seat in range(len(episode.roles))}
    for turn in episode.turns:
        replies[turn.seat].append(turn.reply)
    return replies


def as_action(env, reply):
    return reply if env.actions is None else env.actions.index(reply)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_environments_pass_the_checks_of_pettingzoo_and_gymnasium(name):
    api_test(aec_env(name), num_cycles=20)
    seed_test(lambda: aec_env(name), num_cycles=20)
    parallel_api_test(parallel_env(name), num_cycles=20)
    parallel_seed_test(lambda: parallel_env(name), num_cycles=20)
    check_env(GymnasiumEnv(name))
    check_env(GymnasiumEnv(name, seat=sparring.make_environment(name).num_seats - 1))


@pytest.mark.parametrize("name", NAMES)
def test_the_same_actions_give_the_same_episode_as_in_sparring(name):
    aec, parallel, arena = aec_env(name), parallel_env(name), TextArenaEnv(name)
    for number, episode in enumerate(episodes_at_random(name)):
        seed = None if number else 3  # further episodes of a seed follow without a seed
        replies = replies_of(episode)
        totals = np.zeros(len(episode.roles))
        aec.reset(seed=seed)
        for agent in aec.agent_iter():
            _, _, has_ended, is_truncated, _ = aec.last()
            seat = aec.possible_agents.index(agent)
            aec.step(None if has_ended or is_truncated else as_action(aec, replies[seat].pop(0)))
            totals += [aec.rewards.get(agent, 0.0) for agent in aec.possible_agents]
        assert facts(aec.source.episode.record) == facts(episode) and not any(replies.values())
        np.testing.assert_allclose(totals, episode.returns, atol=1e-12)

        replies = replies_of(episode)
        totals = np.zeros(len(episode.roles))
        _, infos = parallel.reset(seed=seed)
        while parallel.agents:
            due = [agent for agent in parallel.agents if infos[agent]["is_due"]]
            seats = [parallel.possible_agents.index(agent) for agent in due]
            actions = [as_action(parallel, replies[seat].pop(0)) for seat in seats]
            _, rewards, _, _, infos = parallel.step(dict(zip(due, actions, strict=True)))
            totals += [rewards[agent] for agent in parallel.possible_agents]
        assert facts(parallel.source.episode.record) == facts(episode)
        np.testing.assert_allclose(totals, episode.returns, atol=1e-12)

        replies, done = replies_of(episode), False
        arena.reset(num_players=len(episode.roles), seed=seed)
        while not done:
            player, messages = arena.get_observation()
            prompts = [turn.prompt for turn in episode.turns if turn.seat == player]
            new_messages = [text for sender, text, _ in messages if sender == textarena.GAME_ID]
            assert new_messages == [prompts[-len(replies[player])]]
            done, _ = arena.step(replies[player].pop(0))
        assert facts(arena.source.episode.record) == facts(episode)
        rewards, game_info = arena.close()
        assert rewards == dict(enumerate(episode.returns))
        assert [game_info[seat]["role"] for seat in rewards] == list(episode.roles)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("sudoku", "lookups")])
def test_opponents_in_gymnasium_reply_as_in_sparring(name):
    env = GymnasiumEnv(name, seat=1)
    for number, episode in enumerate(episodes_at_random(name)):
        if not any(turn.seat == 1 for turn in episode.turns):
            continue  # the environment leaves such episodes out
        replies, total, has_ended = replies_of(episode)[1], 0.0, False
        _, info = env.reset(seed=None if number else 3)
        assert info["text"] == next(turn.prompt for turn in episode.turns if turn.seat == 1)
        while not has_ended:
            _, reward, has_ended, is_truncated, info = env.step(as_action(env, replies.pop(0)))
            total += reward
            assert not is_truncated
        trained = env.source.episode.record.trained
        assert facts(env.source.episode.record) == facts(episode) and trained == tuple(
            s == 1 for s in range(len(trained))
        )
        assert total == pytest.approx(episode.returns[1])


def test_observations_hold_the_conversation_and_the_mask_of_legal_actions():
    env = aec_env("tic_tac_toe", style="brief", num_bytes=20)
    env.reset(seed=0)
    observation, _, _, _, info = env.last()
    assert decode(observation) == info["text"][-20:] and info["text"] == env.source.episode.play.observe(0).text
    assert info["action_mask"].tolist() == [1] * 9 and info["role"] == env.source.environment.roles[0]
    assert env.observe("player_1")["action_mask"].tolist() == [0] * 9 and not env.infos["player_1"]["is_due"]
    env.step(4)
    assert env.observe("player_1")["action_mask"].tolist() == [1] * 4 + [0] + [1] * 4
    assert env.infos["player_1"]["legal_actions"] == tuple(w for i, w in enumerate(env.actions) if i != 4)
    env.step(0)
    first_text, conversation = info["text"], decode(env.observe("player_0"))
    expected = f"{first_text}\n{env.actions[4]}\n{env.infos['player_0']['text']}"
    assert conversation == expected[-20:]
    env.step(1)
    env.step(3)
    env.step(7)  # 4, 1 and 7 are in a line
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0} and all(env.terminations.values())
    assert decode(env.observe("player_1")).endswith(env.infos["player_1"]["text"]) and env.infos["player_1"]["text"]


def test_simultaneous_actions_are_hidden_until_all_have_acted():
    env = aec_env("rock_paper_scissors")
    env.reset(seed=0)
    first_observation = env.observe("player_1")
    env.step(0)
    assert env.agent_selection == "player_1" and env.rewards == {"player_0": 0.0, "player_1": 0.0}
    assert all(np.array_equal(env.observe("player_1")[key], value) for key, value in first_observation.items())
    env.step(1)
    assert env.actions == ("rock", "paper", "scissors") and env.rewards == {"player_0": -1.0, "player_1": 1.0}


def test_actions_are_the_list_of_the_environment_or_those_that_random_play_meets():
    assert actions_of(sparring.make_environment("kuhn_poker")) == ("pass", "bet")
    assert actions_of(sparring.make_environment("code_words")) is not None
    assert actions_of(sparring.make_environment("talk")) is None
    assert isinstance(aec_env("bargain").action_space("player_0"), gymnasium.spaces.Text)
    env = aec_env("bargain", actions=["(accept)", "(reject)"])  # a list of replies to free text
    env.reset(seed=0)
    assert env.last()[0]["action_mask"].tolist() == [1, 1]


def test_a_text_is_parsed_as_a_reply():
    env = GymnasiumEnv("kuhn_poker", opponent=scripted(moves=("bet",)), style="full")
    env.reset(seed=1)
    assert not env.step("I think that I will **pass**.")[2] and env.source.episode.play.trail
    env.step("My answer is bet")
    turns = [turn for turn in env.source.episode.record.turns if turn.seat == 0]
    assert [turn.action for turn in turns] == ["pass", "bet"] and turns[0].reply.startswith("I think")


def test_the_rule_of_the_environment_decides_about_illegal_actions():
    env = aec_env("tic_tac_toe")
    env.reset(seed=0)
    env.step(4)
    env.step(4)
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0} and all(env.terminations.values())
    assert env.source.episode.record.forfeited_by == 1

    env = aec_env("tic_tac_toe", illegal=RETRY, style="full")
    env.reset(seed=0)
    env.step(4)
    env.step(4)
    assert env.agent_selection == "player_1" and env.rewards == {"player_0": 0.0, "player_1": -0.5}
    assert "not legal" in env.infos["player_1"]["text"] and not env.observe("player_1")["action_mask"][4]
    env.step(4)  # a random action is played
    assert env.agent_selection == "player_0" and env.rewards["player_1"] == -0.5
    assert env.last()[1] == 0.0

    parallel = parallel_env("rock_paper_scissors", illegal=RETRY)
    parallel.reset(seed=0)
    _, rewards, _, _, infos = parallel.step({"player_0": 0, "player_1": "lizard"})
    assert rewards["player_1"] == -0.5 and [info["is_due"] for info in infos.values()] == [False, True]
    parallel.step({"player_1": "paper"})
    assert parallel.source.episode.record.returns == (-1.0, 1.0)

    arena = TextArenaEnv("kuhn_poker", illegal=RETRY)
    arena.reset(num_players=2, seed=0)
    for reply in ("banana", "pass", "pass"):
        arena.step(reply)
    rewards, info = arena.close()
    returns = arena.source.episode.record.returns
    assert rewards == {0: returns[0] - 0.5, 1: returns[1]}
    assert [info[seat]["invalid_move"] for seat in (0, 1)] == [True, False] and info[0]["turn_count"] == 2


def test_an_illegal_index_is_never_read_as_a_legal_action():
    actions = ["rock", "paper", "scissors", "rock and no more"]
    env = GymnasiumEnv("rock_paper_scissors", actions=actions, style="full")
    env.reset(seed=0)
    _, reward, has_ended, _, _ = env.step(3)
    assert has_ended and reward == -1.0 and env.source.episode.record.forfeited_by == 0


def test_a_limit_truncates_without_an_outcome():
    environment = sparring.make_environment("tic_tac_toe")
    environment.max_turns = 3
    env, arena, solo = aec_env(environment), TextArenaEnv(environment), GymnasiumEnv(environment)
    solo.reset(seed=0)
    info = solo.step(0)[4]
    assert solo.step(info["legal_actions"][0])[1:4] == (0.0, False, True)
    env.reset(seed=0)
    for action in (0, 1, 2):
        env.step(action)
    assert all(env.truncations.values()) and not any(env.terminations.values())
    assert env.rewards == {"player_0": 0.0, "player_1": 0.0}
    arena.reset(num_players=2, seed=0)
    done = [arena.step(action)[0] for action in env.actions[:3]]
    assert done == [False, False, True] and arena.close()[1][0]["reason"] == "The episode was truncated."


def test_seeds_determine_the_sequence_of_episodes():
    def first_texts(env, seeds):
        infos = [env.reset(seed=seed)[1] for seed in seeds]
        return [info.get("player_0", info)["text"] for info in infos]

    env, other_env = parallel_env("kuhn_poker"), parallel_env("kuhn_poker")
    sequence = first_texts(env, [5, *[None] * 9])
    assert sequence == first_texts(other_env, [np.int64(5), *[None] * 9]) and len(set(sequence)) > 1
    assert first_texts(env, [5]) == sequence[:1] and first_texts(env, range(10)) != sequence
    assert first_texts(GymnasiumEnv("kuhn_poker"), [5, *[None] * 9]) == sequence
    state = random.getstate()
    arena = TextArenaEnv("kuhn_poker")
    arena.reset(num_players=2, seed=5)
    assert random.getstate() == state  # TextArena's own games seed the process-wide generator
    unseeded = [aec_env("tic_tac_toe") for _ in range(2)]
    for env in unseeded:
        env.reset()
    assert len({env.source.episode._episode.spec.deal.key for env in unseeded}) == 2


class Hasty(TextAgent):
    """Forfeits half of the episodes in its first turn."""

    name = "hasty"

    def choose(self, state, seat, stream):
        return "nonsense" if stream.uniform(0) < 0.5 else "pass"


def test_episodes_without_a_turn_of_the_seat_are_left_out():
    episodes = sparring.play_episodes("kuhn_poker", [Hasty(), "random"], plays=30, seed=2)
    texts = [episode.turns[1].prompt for episode in episodes if len(episode.turns) > 1]
    env = GymnasiumEnv("kuhn_poker", seat=1, opponent=Hasty())
    assert 5 < len(texts) < 25
    assert [env.reset(seed=None if number else 2)[1]["text"] for number in range(len(texts))] == texts
    env = GymnasiumEnv("kuhn_poker", seat=1, opponent=scripted(moves=("nonsense",)))
    with pytest.raises(GameError, match="1000 episodes ended before the first turn of seat 1"):
        env.reset(seed=0)


def test_a_new_conversation_begins_without_the_old_one():
    env = TextArenaEnv("trial")
    env.reset(num_players=2, seed=0)
    done, num_fresh = False, 0
    while not done:
        episode = env.source.episode
        is_fresh = [draft.observation.fresh for draft in episode.waiting.values()]
        num_fresh += sum(is_fresh)
        for (seat, draft), fresh in zip(episode.waiting.items(), is_fresh, strict=True):
            assert episode.texts[seat][-1] == draft.prompt and (len(episode.texts[seat]) == 1 or not fresh)
        legal = episode.waiting[env.state.current_player_id].legal
        done, _ = env.step(legal[0] if legal else "paper is better")
    assert num_fresh > 0


def test_a_reset_between_the_steps_after_the_end_begins_anew():
    env = aec_env("kuhn_poker")
    env.reset(seed=0)
    for action in (0, 0, None):
        env.step(action)
    env.reset(seed=0)
    for action in (1, 0):
        env.step(action)
    agents = []
    while env.agents:
        agents.append(env.agent_selection)
        env.step(None)
    assert agents == ["player_0", "player_1"]


def test_a_registered_environment_is_made_by_textarena_with_the_whole_conversation():
    register("SparringKuhn-v0", "kuhn_poker", illegal={"rule": "random"})
    env = textarena.make("SparringKuhn-v0")
    env.reset(num_players=2, seed=4)
    player, text = env.get_observation()
    env.step("pass")
    assert (player, text) == (0, f"\n[GAME] {env.source.episode.texts[0][0]}")
    env.get_observation()
    env.step("bet")
    assert env.get_observation()[1].startswith(f"{text}\n[Player 0] pass\n[GAME] ")
    assert isinstance(textarena.make("SparringKuhn-v0-raw"), TextArenaEnv)
    with pytest.raises(ConfigError, match="'SparringKuhn-v0' is registered"):
        register("SparringKuhn-v0", "kuhn_poker")


def test_gymnasium_makes_the_environment_by_its_class():
    gymnasium.register("SparringNim-v0", "sparring.interop.gymnasium:GymnasiumEnv", kwargs={"environment": "nim"})
    envs = gymnasium.make_vec("SparringNim-v0", num_envs=2)
    observation, _ = envs.reset(seed=0)
    assert observation["action_mask"].shape == (2, len(GymnasiumEnv("nim").actions))
    envs.step(observation["action_mask"].argmax(axis=1))
    envs.close()


ROUND_TRIP = """
from sparring.interop.pettingzoo import aec_env, parallel_env

SLOT = "pettingzoo"
PLUGINS = ("exported", "in_words")


def exported(name, parallel=False):
    return (parallel_env if parallel else aec_env)(name)


def in_words(observation, agent):
    return bytes(observation["observation"]).rstrip(b"\\0").decode() or "Wait."
"""


@pytest.mark.parametrize("name", ["kuhn_poker", "tic_tac_toe", "rock_paper_scissors"])
def test_an_exported_environment_is_an_environment_of_the_bridge_to_pettingzoo(name, tmp_path, monkeypatch):
    (tmp_path / "round_trip.py").write_text(ROUND_TRIP, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"game": "round_trip.exported", "word": "round_trip.in_words", "arguments": {"name": name}}
    check_environment(pettingzoo, plays=3, payoffs=(-2, 2), actions=aec_env(name).actions, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: aec_env("kuhn_pocker"), UnknownNameError, "'kuhn_poker'"),
        (lambda: GymnasiumEnv("kuhn_poker", colour="red"), UnknownNameError, "colour"),
        (lambda: aec_env(7), ConfigError, "environment=7"),
        (lambda: aec_env(sparring.make_environment("nim"), style="brief"), ConfigError, "make_environment alone"),
        (lambda: GymnasiumEnv("kuhn_poker", seat=2), ConfigError, "seat=2: kuhn_poker has 2 seats"),
        (lambda: GymnasiumEnv("kuhn_poker", opponent="randm"), UnknownNameError, "'random'"),
        (lambda: GymnasiumEnv("kuhn_poker", opponent=7), ConfigError, "7 is not a player"),
        (lambda: aec_env("kuhn_poker", actions=[]), ConfigError, "each action once"),
        (lambda: aec_env("kuhn_poker", actions=["bet", "bet"]), ConfigError, "each action once"),
        (lambda: aec_env("kuhn_poker", actions="bet"), ConfigError, "not a list of texts"),
        (lambda: aec_env("kuhn_poker", actions=["bet"]).reset(), GameError, "'pass' is not one of the 1 actions"),
        (lambda: aec_env("kuhn_poker").reset(seed=-1), ConfigError, "seed=-1"),
        (lambda: parallel_env("kuhn_poker").reset(seed=0.5), ConfigError, "seed=0.5"),
        (lambda: GymnasiumEnv("kuhn_poker").step(0), GameError, "no episode has begun; call reset"),
        (lambda: aec_env("kuhn_poker").step(0), GameError, "no episode has begun; call reset"),
        (lambda: parallel_env("kuhn_poker").step({}), GameError, "no episode has begun; call reset"),
        (lambda: TextArenaEnv("kuhn_poker").step("bet"), GameError, "no episode has begun; call reset"),
        (lambda: TextArenaEnv("kuhn_poker").reset(num_players=3), ConfigError, "write num_players=2"),
        (lambda: register("Kuhn-x", "kuhn_pocker"), UnknownNameError, "'kuhn_poker'"),
    ],
)
def test_wrong_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_incomplete_list_of_actions_is_refused(monkeypatch):
    monkeypatch.setattr("sparring.interop.gymnasium.RANDOM_PLAYS", 2)
    with pytest.raises(ConfigError, match=r"random play met \d+ actions, and later others such as .* write actions="):
        aec_env("dag_search")
    env = GymnasiumEnv("dag_search", actions="any")
    _, info = env.reset(seed=0)
    assert isinstance(env.action_space, gymnasium.spaces.Text) and "action_mask" not in info
    assert env.step(info["legal_actions"][0])[2:4] == (False, False)


@pytest.mark.parametrize("action", [2, -1, 1.5, None, np.array([0, 1])])
def test_an_action_outside_of_the_space_is_refused_and_the_episode_goes_on(action):
    env, aec, parallel = GymnasiumEnv("kuhn_poker"), aec_env("kuhn_poker"), parallel_env("kuhn_poker")
    env.reset(seed=0)
    aec.reset(seed=0)
    parallel.reset(seed=0)
    for step in (env.step, aec.step, lambda action: parallel.step({"player_0": action})):
        with pytest.raises(GameError, match="write a number from 0 to 1, or a text"):
            step(action)
    for step in (env.step, aec.step, lambda action: parallel.step({"player_0": action})):
        step(np.array(1))


def test_steps_after_the_end_and_missing_actions_are_refused():
    env, aec = GymnasiumEnv("rock_paper_scissors"), aec_env("rock_paper_scissors")
    parallel, arena = parallel_env("rock_paper_scissors"), TextArenaEnv("rock_paper_scissors")
    for one_env in (env, aec, parallel):
        one_env.reset(seed=0)
    arena.reset(num_players=2, seed=0)
    with pytest.raises(GameError, match="have none for player_1; write one for each agent that is due"):
        parallel.step({"player_0": 0})
    with pytest.raises(GameError, match="the reply 0 of seat 0 is not a text"):
        arena.step(0)
    env.step(0)
    parallel.step({"player_0": 0, "player_1": 1})
    for action in (0, 1, None, None):
        aec.step(action)
    for reply in ("rock", "paper"):
        arena.step(reply)
    for step in (env.step, aec.step, arena.step, lambda _: parallel.step({"player_0": 0})):
        with pytest.raises(GameError, match="after the end of the episode; call reset"):
            step(0)


@pytest.mark.parametrize("name", ["pettingzoo", "gymnasium", "textarena"])
def test_without_the_library_the_error_names_the_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"sparring.interop.{name}")
    with pytest.raises(ConfigError, match=rf"pip install 'sparring\[{name}\]'"):
        importlib.import_module(f"sparring.interop.{name}")


def test_the_games_of_the_page_run(capsys):
    page = (ROOT / "docs" / "interop.md").read_text(encoding="utf-8").partition("## Sparring's environments")[2]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "interop.md", "exec"), {})
        assert capsys.readouterr().out
