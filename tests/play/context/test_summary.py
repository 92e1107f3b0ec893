import json
from dataclasses import replace
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from typer.testing import CliRunner

import sparring
from sparring import cli
from sparring.config import resolve
from sparring.config.plugins import registry
from sparring.config.plugins.registry import bind
from sparring.core.errors import ConfigError, GameError
from sparring.core.schedule import parse
from sparring.engine.local import ExactColumns, LocalEngine
from sparring.learn.pack import pack
from sparring.measure.info_states import UniformScorer, enumerate_info_states
from sparring.measure.matches import illegal_replies
from sparring.methods.oracles.judge import judge_episodes
from sparring.methods.rewards.base import WeightedReward, apply_rewards, call_reward
from sparring.play.context.base import ContextWindow, Ledger, WriteMemory
from sparring.play.context.full import full
from sparring.play.context.summary import REQUEST, WORDS, summary
from sparring.play.episode import Candidates
from sparring.play.players.base import Reply
from sparring.play.playouts import with_playouts
from sparring.play.replay import replay
from sparring.play.rollout import play, rollout, run_requests
from sparring.play.store import from_bytes, to_bytes
from sparring.play.turn_table import turn_table
from sparring.run.step import rollout_metrics
from sparring.testing import context_seen, random_table
from sparring.testing.context import Letters

SOKOBAN = {"rooms": 4, "moves": 8}
EVERY_TWO = {"name": "summary", "every": 2}


def reply_of(text):
    return Reply(text=text, ids=(*map(ord, text), 2), logprobs=(0.0,) * (len(text) + 1))


def test_the_ids_around_a_memory_by_hand():
    ledger = Ledger(Letters(), bind("context", "summary", {"every": 2, "request": "R"}))
    requests = []
    for text, reply in (("x", "a"), ("y", "b"), ("z", "M"), ("z", "c"), ("w", "d"), ("v", "N"), ("v", "e")):
        ledger.ask(text)
        requests.append((ledger.conversation, ledger.memory_example, ledger.ids))
        ledger.record(reply_of(reply))
    x, y, z, w, v, r = map(ord, "xyzwvR")
    a, b, m, c, d, n = ((ord(letter), 2) for letter in "abMcdN")
    assert requests == [
        (0, None, (0, x, 1)),
        (0, None, (0, x, 1, *a, y, 1)),
        (0, "x y", (0, x, 1, *a, y, 1, *b, r, 1)),  # the prompt z waits until the memory is written
        (1, None, (0, x, 1, *a, r, 1, *m, z, 1)),  # the first exchange, the memory, and the prompt z
        (1, None, (0, x, 1, *a, r, 1, *m, z, 1, *c, w, 1)),
        (1, "M z w", (0, x, 1, *a, r, 1, *m, z, 1, *c, w, 1, *d, r, 1)),
        (2, None, (0, x, 1, *a, r, 1, *n, v, 1)),
    ]


def test_without_the_opening_only_the_memory_is_shown():
    ledger = Ledger(Letters(), bind("context", "summary", {"every": 1, "request": "R", "opening": False}))
    for text, reply in (("x", "a"), ("y", "M"), ("y", "b")):
        ledger.ask(text)
        ids = ledger.ids
        ledger.record(reply_of(reply))
    assert ids == (0, ord("R"), 1, ord("M"), 2, ord("y"), 1)


def test_a_memory_is_requested_at_the_limit_of_tokens():
    request = context_seen("x", "y", "z")  # a conversation of 8 tokens
    assert isinstance(summary(request, every=None, tokens=8), WriteMemory)
    assert summary(request, every=None, tokens=9) == full(request)


@given(st.integers(0, 9), st.integers(10, 20))
def test_before_the_first_memory_summary_equals_full(count, every):
    request = context_seen(*map(str, range(count + 1)))
    assert summary(request, every=every) == full(request)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 4), st.booleans())
def test_the_newest_memory_and_the_exchanges_after_it_are_shown(memories, every, opening):
    request = context_seen(*map(str, range(len(memories) + 1)))
    is_memory = [index > 0 and memory and not memories[index - 1] for index, memory in enumerate(memories)]
    exchanges = tuple(
        exchange._replace(is_memory=memory) for exchange, memory in zip(request.past, is_memory, strict=True)
    )
    window = summary(request._replace(past=exchanges, is_retry=True), every=every, opening=opening)
    last_memory = max((index for index, memory in enumerate(is_memory) if memory), default=0)
    shown_exchanges = [int(exchange.prompt) for exchange in window.past]
    assert shown_exchanges == ([0] if opening and last_memory else []) + list(range(last_memory, len(exchanges)))


def test_the_request_has_the_style_of_the_environment_unless_given():
    request = context_seen("x", "y")
    assert summary(request, every=1) == WriteMemory(REQUEST, "x")
    assert summary(request._replace(brief=True), every=1) == WriteMemory(WORDS[0], "x")
    assert summary(request, every=1, request="R") == WriteMemory("R", "x")
    assert summary(request._replace(is_retry=True), every=1) == ContextWindow(request.past, "y")


def test_summary_without_every_and_tokens_is_refused():
    with pytest.raises(ConfigError, match="never write a memory; write every: 4"):
        summary(context_seen("x"), every=None)
    config = {
        "environments": [{"name": "sokoban"}],
        "context": {"name": "summary", "every": None},
        "model": {"hidden_size": 8, "heads": 1},
    }
    with pytest.raises(ConfigError, match="write every: 4"):
        LocalEngine(resolve(config))


@pytest.fixture
def sokoban_and_episodes(context_game, check_ids_sent):
    sokoban = context_game("sokoban", SOKOBAN, dict(EVERY_TWO))
    episodes = sokoban.play(8)
    check_ids_sent(sokoban, episodes)
    assert sum(turn.event == "memory" for episode in episodes for turn in episode.turns) > 8
    return sokoban, episodes


def test_a_memory_is_a_turn_that_does_not_change_the_position(sokoban_and_episodes):
    sokoban, episodes = sokoban_and_episodes
    for episode in episodes:
        assert [turn.turn_index for turn in episode.turns] == list(range(len(episode.turns)))
        assert [turn.moment for turn in episode.turns] == list(range(len(episode.turns)))
        assert len(episode.decisions) == min(8, sokoban.game.max_turns) or episode.returns[0] > 0
        for index, turn in enumerate(episode.turns):
            if turn.event == "memory":
                next_turn = episode.turns[index + 1]
                assert (turn.action, turn.legal_actions, turn.prompt) == (None, (), "remember")
                assert (turn.state_key, turn.view) == (f"{next_turn.state_key}|memory", f"{next_turn.view}|memory")
                assert "goal" in next_turn.prompt  # the position, after any correction of the previous reply
                assert next_turn.event != "memory" and next_turn.conversation == turn.conversation + 1
                closing_ids = turn.segments[-1].ids if turn.truncated else ()
                memory = next(segment.ids for segment in turn.segments if segment.kind == "sampled") + closing_ids
                assert sokoban.text(memory) in sokoban.text(next_turn.segments[0].ids)
                assert turn.rewards == {"game": 0.0}


def test_a_correction_is_shown_once_also_after_a_memory(sokoban_and_episodes):
    _, episodes = sokoban_and_episodes
    for episode in episodes:
        for turn, next_turn in pairwise(episode.decisions):
            assert next_turn.prompt.startswith("agent") == (turn.event == "ok")
    events = {(first.event, second.event) for episode in episodes for first, second in pairwise(episode.turns)}
    assert ("illegal", "memory") in events or ("unparsable", "memory") in events


def test_a_memory_follows_every_two_decisions(sokoban_and_episodes):
    _, episodes = sokoban_and_episodes
    for episode in episodes:
        events = ["m" if turn.event == "memory" else "d" for turn in episode.turns]
        assert "".join(events).startswith("ddmddmdd")


def test_a_memory_gets_the_later_return_and_its_tokens_are_packed(sokoban_and_episodes):
    _, episodes = sokoban_and_episodes
    episodes = [
        replace(episode, turns=(*episode.turns[:-1], episode.turns[-1]._replace(rewards={"game": 1.0})))
        for episode in episodes
    ]
    table, batch = turn_table(episodes), pack(episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    is_memory = np.array([turn.event == "memory" for turn in turns])
    assert (
        table.legal[is_memory].all() and (table.action[is_memory] == -1).all() and (table.n_tokens[is_memory] > 0).all()
    )
    assert np.isin(np.flatnonzero(is_memory), batch.turn_of).all()
    credit = bind("credit", "rloo")(replace(table, group=np.zeros_like(table.group)), {})
    first_turns = np.flatnonzero(np.diff(table.trajectory, prepend=-1))
    assert np.array_equal(credit.advantages, credit.advantages[first_turns][table.trajectory])


def test_memories_are_not_judged_or_rewarded(sokoban_and_episodes):
    sokoban, episodes = sokoban_and_episodes
    (episode, *_) = episodes
    states = replay(sokoban.game, episode)
    assert len(states) == len(episode.turns)
    oracle = registry.bind("oracles", "constraint")()
    (judged_episode,) = judge_episodes([episode], {"sokoban": sokoban.game}, {"sokoban": oracle})
    assert all(turn.verdict is None for turn in judged_episode.turns if turn.event == "memory")
    assert sum(turn.verdict is not None for turn in judged_episode.turns) > 1
    judges = {"sokoban": lambda states, streams: oracle.judge(states)}
    (in_play, *_) = play(sokoban.specs(8), {"learner": sokoban.agent}, judges=judges)
    assert in_play == judged_episode
    bonus = bind("rewards", "format_bonus")
    (row,) = call_reward(bonus, [episode], {})
    assert [value is None for value in row] == [turn.event == "memory" for turn in episode.turns]
    episode_without = replace(episode, turns=episode.decisions)
    assert [value for value in row if value is not None] == list(call_reward(bonus, [episode_without], {})[0])
    shaped_episodes, metrics = apply_rewards([episode], [WeightedReward(bound=bonus, weight=parse(1.0))], 0.0, gaps={})
    assert all(("format_bonus" in turn.rewards) == (turn.event != "memory") for turn in shaped_episodes[0].turns)
    assert "abstained/format_bonus" not in metrics


def test_metrics_of_replies_exclude_memories(sokoban_and_episodes):
    _, episodes = sokoban_and_episodes
    metrics = rollout_metrics(episodes)
    metrics_without = rollout_metrics([replace(episode, turns=episode.decisions) for episode in episodes])
    memories = [turn for episode in episodes for turn in episode.turns if turn.event == "memory"]
    assert metrics.pop("memories_per_game") == len(memories) / len(episodes)
    num_tokens = [len(segment.ids) for turn in memories for segment in turn.segments if segment.kind == "sampled"]
    assert metrics.pop("memory_tokens") == pytest.approx(sum(num_tokens) / len(memories))
    assert metrics == metrics_without
    assert illegal_replies(episodes[0].turns) == illegal_replies(episodes[0].decisions)


def test_memories_are_stored(sokoban_and_episodes):
    _, episodes = sokoban_and_episodes
    assert [episode for _, episode in from_bytes(to_bytes([(3, episode) for episode in episodes]))] == episodes


def test_an_episode_continued_from_any_turn_is_equal(sokoban_and_episodes):
    sokoban, (episode, *_) = sokoban_and_episodes
    for prefix_length in range(1, len(episode.turns)):
        spec = replace(sokoban.specs(1)[0], prefix=episode.turns[:prefix_length], redealt=False)
        (continued_episode,) = play([spec], {"learner": sokoban.agent}, retries=0)
        assert continued_episode == episode


def test_a_memory_has_no_candidates(sokoban_and_episodes):
    sokoban, episodes = sokoban_and_episodes
    candidates = Candidates(
        count=3, grade=lambda requests: [[0.0] * len(episode.turns) for episode in requests], commit="random"
    )
    with_candidates = play(sokoban.specs(8), {"learner": sokoban.agent}, candidates=candidates)
    for with_candidates_episode, plain_episode in zip(with_candidates, episodes, strict=True):
        assert [len(turn.candidates) for turn in with_candidates_episode.turns] == [
            0 if turn.event == "memory" else 2 for turn in with_candidates_episode.turns
        ]
        assert [(turn.reply, turn.prompt, turn.event) for turn in with_candidates_episode.turns] == [
            (turn.reply, turn.prompt, turn.event) for turn in plain_episode.turns
        ]
        for turn in with_candidates_episode.turns:
            for candidate in turn.candidates:
                assert candidate.conversation != turn.conversation and candidate.event != "memory"
    batch = pack(with_candidates, candidates=True)
    assert len(batch.prompt_ends) == sum(
        1 + len(turn.candidates) for episode in with_candidates for turn in episode.turns
    )


def test_playouts_can_start_after_a_memory(sokoban_and_episodes):
    sokoban, episodes = sokoban_and_episodes
    requests = with_playouts(episodes[:2], {"sokoban": sokoban.game}, count=2, stream=sokoban.specs(1)[0].stream)
    results, _ = run_requests(requests, lambda specs: rollout(specs, {"learner": sokoban.agent}))
    assert all(turn.playout is not None for episode in results for turn in episode.turns)


def test_seats_that_move_at_once_write_memories_at_once(context_game, check_ids_sent):
    repeated_game = context_game(
        "repeated",
        {"environment": {"name": "rock_paper_scissors"}, "rounds": 5},
        {"name": "summary", "every": 1},
        rule="retry",
        max_new_tokens=2,
    )
    episodes = repeated_game.play(10)
    check_ids_sent(repeated_game, episodes)
    num_retries = num_memories = 0
    for episode in episodes:
        assert len(replay(repeated_game.game, episode)) == len(episode.turns)
        for seat in (0, 1):
            turns = [turn for turn in episode.turns if turn.seat == seat]
            for earlier_turn, next_turn in pairwise(turns):
                if earlier_turn.event not in ("ok", "memory") and earlier_turn.action is None:
                    num_retries += 1
                    assert next_turn.conversation == earlier_turn.conversation and next_turn.event != "memory"
        by_moment = {}
        for turn in episode.turns:
            by_moment.setdefault(turn.moment, set()).add(turn.seat)
            num_memories += turn.event == "memory"
        assert {0, 1} in by_moment.values()
    assert num_retries > 10 and num_memories > 20


def test_a_memory_beyond_the_context_truncates_the_episode(context_game):
    sokoban = context_game("sokoban", SOKOBAN, {"name": "summary", "every": 2}, context_length=40)
    episodes = sokoban.play(4)
    last_turns = [
        (episode.turns[-1].event, episode.turns[-1].truncated, episode.turns[-1].reply) for episode in episodes
    ]
    assert last_turns == [("unsent", True, "")] * 4 and all(episode.cut for episode in episodes)
    assert all(len(episode.turns) == 3 for episode in episodes), (
        "the turns are two moves and the memory prompt that did not fit"
    )


def test_exact_values_of_a_memory_are_those_of_its_state(context_game):
    leduc = context_game("leduc_poker", {}, {"name": "summary", "every": 1})
    episodes = leduc.play(12)
    columns = ExactColumns([leduc.game], 20_000).of(turn_table(episodes), episodes, UniformScorer())
    rows = [
        (episode, turn)
        for episode in episodes
        for turn in sorted(episode.turns, key=lambda turn: (turn.seat, turn.turn_index))
    ]
    memory_rows = [row for row, (_, turn) in enumerate(rows) if turn.event == "memory"]
    assert memory_rows
    for row in memory_rows:
        value = columns["state_value"][row]
        assert value == columns["action_value"][row] == columns["default_value"][row] == columns["state_value"][row + 1]


def test_estimators_by_turn_index_do_not_compare_a_memory_with_a_decision():
    table = random_table([4, 4, 4, 4], 0)
    is_memory = (table.turn_index == 1) & (table.trajectory == 0)
    table_with_memory = replace(table, memory=is_memory)
    for name in ("at_grpo", "match_tir"):
        estimator = bind("credit", name)
        assert not np.array_equal(estimator(table_with_memory, {}).advantages, estimator(table, {}).advantages)


def test_exact_evaluation_is_refused_with_memories(context_game):
    leduc = context_game("leduc_poker", {}, {"name": "summary", "every": 1})
    with pytest.raises(GameError, match=r"context strategy 'summary' .context. lets the model write a memory"):
        leduc.agent.action_logprobs(enumerate_info_states(leduc.game).queries)


def test_a_run_with_memories_trains_and_is_shown(tmp_path, capsys):
    overrides = (
        *(
            "steps=2",
            "threads=1",
            "rollout.games_per_step=8",
            "rollout.max_new_tokens=4",
            "evaluation.opponents=[{name: random, games_per_seat: 2}]",
        ),
        *(
            "context={name: summary, every: 2}",
            "warmup.updates=1",
            "warmup.games=4",
            "model.context=256",
            "store.every=1",
            "evaluation.every=1",
        ),
    )
    recipe = tmp_path / "memories.yaml"
    recipe.write_text(
        "name: own\nenvironments: [{name: sokoban, options: {rooms: 4, moves: 8}, illegal: {rule: random}}]\ncredit: {name: mars}\n"
    )
    trained_run = sparring.train(str(recipe), *overrides, run=tmp_path / "run")
    rows = [json.loads(row) for row in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any(row.get("memories_per_game", 0) > 1 for row in rows)
    assert max(row.get("logprob_difference_max", 0.0) for row in rows) < 1e-4
    result = CliRunner().invoke(cli.app, ["show", str(tmp_path / "run")])
    assert result.exit_code == 0 and "    memory  '" in result.stdout and "conversation 1" in result.stdout
    assert trained_run is not None
