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
from sparring.methods.rewards.base import WeightedReward, apply_rewards, opinions
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


def test_by_hand_a_memory_after_two_turns():
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
        (0, "x y", (0, x, 1, *a, y, 1, *b, r, 1)),  # what is told now waits
        (1, None, (0, x, 1, *a, r, 1, *m, z, 1)),  # the opening, the memory, and what is told now
        (1, None, (0, x, 1, *a, r, 1, *m, z, 1, *c, w, 1)),
        (1, "M z w", (0, x, 1, *a, r, 1, *m, z, 1, *c, w, 1, *d, r, 1)),
        (2, None, (0, x, 1, *a, r, 1, *n, v, 1)),
    ]


def test_without_the_opening_the_memory_alone_is_left():
    ledger = Ledger(Letters(), bind("context", "summary", {"every": 1, "request": "R", "opening": False}))
    for text, reply in (("x", "a"), ("y", "M"), ("y", "b")):
        ledger.ask(text)
        ids = ledger.ids
        ledger.record(reply_of(reply))
    assert ids == (0, ord("R"), 1, ord("M"), 2, ord("y"), 1)


def test_a_budget_of_tokens_asks_once_the_conversation_has_as_many():
    seen = context_seen("x", "y", "z")  # 8 tokens so far
    assert isinstance(summary(seen, every=None, tokens=8), WriteMemory)
    assert summary(seen, every=None, tokens=9) == full(seen)


@given(st.integers(0, 9), st.integers(10, 20))
def test_as_long_as_no_memory_is_due_it_is_full(count, every):
    seen = context_seen(*map(str, range(count + 1)))
    assert summary(seen, every=every) == full(seen)


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(1, 4), st.booleans())
def test_what_is_shown_is_the_newest_memory_and_what_follows(memories, every, opening):
    seen = context_seen(*map(str, range(len(memories) + 1)))
    flags = [index > 0 and memory and not memories[index - 1] for index, memory in enumerate(memories)]
    past = tuple(exchange._replace(memory=memory) for exchange, memory in zip(seen.past, flags, strict=True))
    answer = summary(seen._replace(past=past, again=True), every=every, opening=opening)
    last = max((index for index, memory in enumerate(flags) if memory), default=0)
    numbers = [int(exchange.prompt) for exchange in answer.past]
    assert numbers == ([0] if opening and last else []) + list(range(last, len(past)))


def test_the_request_is_in_the_words_of_the_environment_unless_one_is_given():
    seen = context_seen("x", "y")
    assert summary(seen, every=1) == WriteMemory(REQUEST, "x")
    assert summary(seen._replace(brief=True), every=1) == WriteMemory(WORDS[0], "x")
    assert summary(seen, every=1, request="R") == WriteMemory("R", "x")
    assert summary(seen._replace(again=True), every=1) == ContextWindow(seen.past, "y")


def test_without_a_reason_to_ask_it_is_refused():
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
def played(table, lawful):
    sokoban = table("sokoban", SOKOBAN, dict(EVERY_TWO))
    episodes = sokoban.play(8)
    lawful(sokoban, episodes)
    assert sum(turn.event == "memory" for episode in episodes for turn in episode.turns) > 8
    return sokoban, episodes


def test_a_memory_is_a_turn_that_moves_no_play(played):
    sokoban, episodes = played
    for episode in episodes:
        assert [turn.turn_index for turn in episode.turns] == list(range(len(episode.turns)))
        assert [turn.moment for turn in episode.turns] == list(range(len(episode.turns)))
        assert len(episode.decisions) == min(8, sokoban.game.max_turns) or episode.returns[0] > 0
        for number, turn in enumerate(episode.turns):
            if turn.event == "memory":
                after = episode.turns[number + 1]
                assert (turn.action, turn.legal_actions, turn.prompt) == (None, (), "remember")
                assert (turn.state_key, turn.view) == (f"{after.state_key}|memory", f"{after.view}|memory")
                assert "goal" in after.prompt  # the position, whatever is told of the reply before
                assert after.event != "memory" and after.conversation == turn.conversation + 1
                written = turn.segments[-1].ids if turn.truncated else ()
                memory = next(part.ids for part in turn.segments if part.kind == "sampled") + written
                assert sokoban.text(memory) in sokoban.text(after.segments[0].ids)
                assert turn.rewards == {"game": 0.0}


def test_a_word_about_an_illegal_reply_is_told_once_after_the_memory_too(played):
    _, episodes = played
    for episode in episodes:
        for before, after in pairwise(episode.decisions):
            assert after.prompt.startswith("agent") == (before.event == "ok")
    events = {(first.event, second.event) for episode in episodes for first, second in pairwise(episode.turns)}
    assert ("illegal", "memory") in events or ("unparsable", "memory") in events


def test_memories_come_after_every_two_decisions(played):
    _, episodes = played
    for episode in episodes:
        events = ["m" if turn.event == "memory" else "d" for turn in episode.turns]
        assert "".join(events).startswith("ddmddmdd")


def test_it_earns_what_follows_and_its_tokens_are_packed(played):
    _, episodes = played
    episodes = [
        replace(episode, turns=(*episode.turns[:-1], episode.turns[-1]._replace(rewards={"game": 1.0})))
        for episode in episodes
    ]
    table, data = turn_table(episodes), pack(episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    memory = np.array([turn.event == "memory" for turn in turns])
    assert table.legal[memory].all() and (table.action[memory] == -1).all() and (table.n_tokens[memory] > 0).all()
    assert np.isin(np.flatnonzero(memory), data.turn_of).all()
    credit = bind("credit", "rloo")(replace(table, group=np.zeros_like(table.group)), {})
    starts = np.flatnonzero(np.diff(table.trajectory, prepend=-1))
    assert np.array_equal(credit.advantages, credit.advantages[starts][table.trajectory])


def test_a_play_is_replayed_judged_and_rewarded_without_its_memories(played):
    sokoban, episodes = played
    (episode, *_) = episodes
    states = replay(sokoban.game, episode)
    assert len(states) == len(episode.turns)
    oracle = registry.bind("oracles", "constraint")()
    (judged,) = judge_episodes([episode], {"sokoban": sokoban.game}, {"sokoban": oracle})
    assert all(turn.verdict is None for turn in judged.turns if turn.event == "memory")
    assert sum(turn.verdict is not None for turn in judged.turns) > 1
    judges = {"sokoban": lambda states, streams: oracle.judge(states)}
    (in_play, *_) = play(sokoban.specs(8), {"learner": sokoban.agent}, judges=judges)
    assert in_play == judged
    bonus = bind("rewards", "format_bonus")
    (row,) = opinions(bonus, [episode], {})
    assert [value is None for value in row] == [turn.event == "memory" for turn in episode.turns]
    bare = replace(episode, turns=episode.decisions)
    assert [value for value in row if value is not None] == list(opinions(bonus, [bare], {})[0])
    shaped, metrics = apply_rewards([episode], [WeightedReward(bound=bonus, weight=parse(1.0))], 0.0, gaps={})
    assert all(("format_bonus" in turn.rewards) == (turn.event != "memory") for turn in shaped[0].turns)
    assert "abstained/format_bonus" not in metrics


def test_figures_of_replies_leave_memories_out(played):
    _, episodes = played
    metrics = rollout_metrics(episodes)
    bare = rollout_metrics([replace(episode, turns=episode.decisions) for episode in episodes])
    written = [turn for episode in episodes for turn in episode.turns if turn.event == "memory"]
    assert metrics.pop("memories_per_game") == len(written) / len(episodes)
    tokens = [len(part.ids) for turn in written for part in turn.segments if part.kind == "sampled"]
    assert metrics.pop("memory_tokens") == pytest.approx(sum(tokens) / len(written))
    assert metrics == bare
    assert illegal_replies(episodes[0].turns) == illegal_replies(episodes[0].decisions)


def test_records_hold_memories(played):
    _, episodes = played
    assert [episode for _, episode in from_bytes(to_bytes([(3, episode) for episode in episodes]))] == episodes


def test_a_play_that_is_taken_over_goes_on_alike(played):
    sokoban, (episode, *_) = played
    for place in range(1, len(episode.turns)):
        spec = replace(sokoban.specs(1)[0], prefix=episode.turns[:place], redealt=False)
        (again,) = play([spec], {"learner": sokoban.agent}, retries=0)
        assert again == episode


def test_a_memory_is_written_once_where_decisions_have_candidates(played):
    sokoban, episodes = played
    rule = Candidates(
        count=3, grade=lambda requests: [[0.0] * len(episode.turns) for episode in requests], commit="random"
    )
    several = play(sokoban.specs(8), {"learner": sokoban.agent}, candidates=rule)
    for new, old in zip(several, episodes, strict=True):
        assert [len(turn.candidates) for turn in new.turns] == [
            0 if turn.event == "memory" else 2 for turn in new.turns
        ]
        assert [(turn.reply, turn.prompt, turn.event) for turn in new.turns] == [
            (turn.reply, turn.prompt, turn.event) for turn in old.turns
        ]
        for turn in new.turns:
            for beside in turn.candidates:
                assert beside.conversation != turn.conversation and beside.event != "memory"
    data = pack(several, candidates=True)
    assert len(data.prompt_ends) == sum(1 + len(turn.candidates) for episode in several for turn in episode.turns)


def test_playouts_go_on_after_memories_too(played):
    sokoban, episodes = played
    asking = with_playouts(episodes[:2], {"sokoban": sokoban.game}, count=2, stream=sokoban.specs(1)[0].stream)
    valued, _ = run_requests(asking, lambda specs: rollout(specs, {"learner": sokoban.agent}))
    assert all(turn.playout is not None for episode in valued for turn in episode.turns)


def test_seats_that_move_at_once_write_at_once_and_illegal_replies_are_tried_again_in_one_conversation(table, lawful):
    rounds = table(
        "repeated",
        {"environment": {"name": "rock_paper_scissors"}, "rounds": 5},
        {"name": "summary", "every": 1},
        rule="retry",
        tokens=2,
    )
    episodes = rounds.play(10)
    lawful(rounds, episodes)
    tries = memories = 0
    for episode in episodes:
        assert len(replay(rounds.game, episode)) == len(episode.turns)
        for seat in (0, 1):
            turns = [turn for turn in episode.turns if turn.seat == seat]
            for before, after in pairwise(turns):
                if before.event not in ("ok", "memory") and before.action is None:
                    tries += 1
                    assert after.conversation == before.conversation and after.event != "memory"
        by_moment = {}
        for turn in episode.turns:
            by_moment.setdefault(turn.moment, set()).add(turn.seat)
            memories += turn.event == "memory"
        assert {0, 1} in by_moment.values()
    assert tries > 10 and memories > 20


def test_a_memory_that_is_too_long_to_be_sent_truncates_the_play(table):
    sokoban = table("sokoban", SOKOBAN, {"name": "summary", "every": 2}, longest=40)
    episodes = sokoban.play(4)
    ends = [(episode.turns[-1].event, episode.turns[-1].truncated, episode.turns[-1].reply) for episode in episodes]
    assert ends == [("unsent", True, "")] * 4 and all(episode.cut for episode in episodes)
    assert all(len(episode.turns) == 3 for episode in episodes), "two moves, and the memory that was not written"


def test_exact_columns_take_a_memory_for_the_state_that_it_is_written_in(table):
    leduc = table("leduc_poker", {}, {"name": "summary", "every": 1})
    episodes = leduc.play(12)
    columns = ExactColumns([leduc.game], 20_000).of(turn_table(episodes), episodes, UniformScorer())
    rows = [
        (episode, turn)
        for episode in episodes
        for turn in sorted(episode.turns, key=lambda turn: (turn.seat, turn.turn_index))
    ]
    written = [row for row, (_, turn) in enumerate(rows) if turn.event == "memory"]
    assert written
    for row in written:
        worth = columns["state_value"][row]
        assert worth == columns["action_value"][row] == columns["default_value"][row] == columns["state_value"][row + 1]


def test_estimators_by_turn_index_do_not_compare_a_memory_with_a_decision():
    table = random_table([4, 4, 4, 4], 0)
    memory = (table.turn_index == 1) & (table.trajectory == 0)
    apart = replace(table, memory=memory)
    for name in ("at_grpo", "match_tir"):
        estimator = bind("credit", name)
        assert not np.array_equal(estimator(apart, {}).advantages, estimator(table, {}).advantages)


def test_exact_evaluation_says_that_a_memory_has_no_probability(table):
    leduc = table("leduc_poker", {}, {"name": "summary", "every": 1})
    with pytest.raises(GameError, match=r"context strategy 'summary' .context. lets the model write a memory"):
        leduc.agent.action_logprobs(enumerate_info_states(leduc.game).queries)


def test_a_run_with_memories_trains_shows_and_resumes(tmp_path, capsys):
    changes = (
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
    recipe = tmp_path / "own.yaml"
    recipe.write_text(
        "name: own\nenvironments: [{name: sokoban, options: {rooms: 4, moves: 8}, illegal: {rule: random}}]\ncredit: {name: mars}\n"
    )
    run = sparring.train(str(recipe), *changes, run=tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any(line.get("memories_per_game", 0) > 1 for line in lines)
    assert max(line.get("logprob_difference_max", 0.0) for line in lines) < 1e-4
    result = CliRunner().invoke(cli.app, ["show", str(tmp_path / "run")])
    assert result.exit_code == 0 and "    memory  '" in result.stdout and "conversation 1" in result.stdout
    assert run is not None
