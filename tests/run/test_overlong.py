"""Conversations longer than the context: their episodes are truncated and counted, without a result or an error."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from sparring.config import resolve
from sparring.core.errors import ConfigError, ModelError
from sparring.engine.local import LocalEngine
from sparring.learn.learner import minibatches
from sparring.learn.pack import pack
from sparring.measure.exploitability import evaluate_exploitability
from sparring.measure.info_states import enumerate_info_states
from sparring.models.language_model import LanguageModel
from sparring.play import store
from sparring.play.context.base import Ledger
from sparring.play.players.base import Reply
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import turn_table
from sparring.run.state import RunState
from sparring.run.step import Methods, play_round, rollout_metrics
from sparring.run.warmup import warm_up
from tests.engine.builders import episodes_of

CONTEXT = 20  # tokens: two or three turns of tic-tac-toe


def make_engine(rule="random", context=CONTEXT, game="tic_tac_toe", **sections):
    base = {
        "environments": [{"name": game, "illegal": {"rule": rule, "penalty": 0.5}}],
        "model": {"hidden_size": 16, "heads": 2, "context": context},
        "rollout": {"games_per_step": 24},
        "threads": 1,
    }
    return LocalEngine(resolve({**base, **sections}))


def sampled_ids(turn):
    return [index for segment in turn.segments if segment.kind == "sampled" for index in segment.ids]


def is_unsent(turn):
    return turn.event == "unsent"


@pytest.mark.parametrize("rule", ["forfeit", "retry", "random"])
def test_an_episode_is_truncated_if_a_conversation_exceeds_the_context(rule):
    engine = make_engine(rule, context=CONTEXT if rule != "forfeit" else 6)
    episodes = episodes_of(engine)
    truncated_episodes = [episode for episode in episodes if episode.has_outgrown_context]
    assert len(episodes) == 24 and truncated_episodes
    for episode in episodes:
        assert [turn for turn in episode.turns if not sampled_ids(turn)] == [
            turn for turn in episode.turns if is_unsent(turn)
        ]
    for episode in truncated_episodes:
        *earlier_turns, last_turn = episode.turns
        assert (last_turn.event, last_turn.reply, last_turn.action, last_turn.truncated, last_turn.rewards) == (
            "unsent",
            "",
            None,
            True,
            {"game": 0.0},
        )
        assert not any(map(is_unsent, earlier_turns)) and episode.decisions == tuple(earlier_turns)
        assert (episode.cut, episode.forfeited_by, episode.returns) == (True, None, (0.0, 0.0))
    metrics = rollout_metrics(episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    replies = [turn for turn in turns if not is_unsent(turn)]
    assert metrics["overlong_rate"] == len(truncated_episodes) / len(turns)
    assert metrics["truncated_rate"] == sum(turn.truncated for turn in turns) / len(turns)
    if replies:
        assert metrics["legal_rate"] == sum(turn.event == "ok" for turn in replies) / len(replies)
    assert ("legal_rate" in metrics) == bool(replies)
    assert metrics["unparsable_rate"] == sum(turn.event == "unparsable" for turn in replies) / max(len(replies), 1)
    assert metrics["cut_rate"] == sum(episode.cut for episode in episodes) / 24
    for episode in episodes:
        for seat in (0, 1):
            turns_of_seat = [turn for turn in episode.turns if turn.seat == seat]
            # the last end-of-turn token is not fed to the model
            assert (
                sum(len(segment.ids) for turn in turns_of_seat for segment in turn.segments) <= engine.model.context + 1
            )


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"learner": {"minibatches": 5, "epochs": 2, "micro_tokens": 40, "reduction": "sequence_mean"}},
        {"learner": {"minibatches": 3, "split": "sequences"}},
        {"learner": {"order": "reverse_turns"}},
        {
            "credit": {"name": "gae"},
            "losses": [{"name": "ppo_clip"}, {"name": "value_loss"}],
            "learner": {"minibatches": 2},
        },
        {"credit": {"name": "mars", "preset": "as_released"}},
        {"losses": [{"name": "policy_gradient"}, {"name": "kl_cov"}], "learner": {"minibatches": 3}},
        {"warmup": {"updates": 2, "games": 8}},
    ],
)
def test_a_step_trains_the_replies_of_truncated_episodes(sections):
    engine = make_engine(**sections)
    warm_up(engine.config, engine)
    parameters_before = [parameter.detach().clone() for parameter in engine.model.parameters()]
    outcome = play_round(
        engine.config, engine, Methods.of(engine.config, [game for game, _ in engine.environments]), RunState()
    )
    assert outcome.metrics["overlong_rate"] > 0.1
    assert all(math.isfinite(value) for value in outcome.metrics.values())
    assert any(
        not np.array_equal(before.numpy(), after.detach().numpy())
        for before, after in zip(parameters_before, engine.model.parameters(), strict=True)
    )


@pytest.mark.parametrize(("game", "context"), [("kuhn_poker", 7), ("tic_tac_toe", CONTEXT)])
def test_rows_and_sequences_of_truncated_episodes_match(game, context):
    engine = make_engine(context=context, game=game)
    episodes = episodes_of(engine)
    batch, turns = pack(episodes), turn_table(episodes)
    assert len(batch.prompt_ends) == len(turns.reward)
    assert np.bincount(batch.turn_of, minlength=len(turns.reward)).tolist() == turns.n_tokens.tolist()
    assert max(len(batch.sequences[index]) for index in batch.distinct) <= context + 1
    assert all(0 <= position < len(batch.sequences[index]) for index, position in batch.prompt_ends.tolist())
    assert sorted(np.concatenate(minibatches(batch, 4, engine.root)).tolist()) == batch.with_replies.tolist()
    assert batch.with_replies.tolist() == list(range(len(batch.distinct)))
    assert (turns.seat.max() == 0) == (context == 7) and turns.n_tokens.min() > 0
    assert store.from_bytes(store.to_bytes([(0, episode) for episode in episodes])) == [
        (0, episode) for episode in episodes
    ]


def test_a_continued_episode_is_truncated_at_the_same_turn():
    engine = make_engine()
    truncated_episode = next(
        episode for episode in episodes_of(engine) if episode.has_outgrown_context and len(episode.turns) > 3
    )
    game, root = engine.environments[0][0], engine.root.child("again")
    for prefix in (truncated_episode.turns[:-1], truncated_episode.turns):
        spec = EpisodeSpec(
            game=game,
            episode_id=0,
            group_id=0,
            deal=root,
            stream=root,
            seats=truncated_episode.agents,
            trained=truncated_episode.trained,
            prefix=prefix,
        )
        (continued_episode,) = play([spec], engine.agents)
        assert (
            continued_episode.has_outgrown_context
            and continued_episode.cut
            and len(continued_episode.turns) == len(truncated_episode.turns)
        )
        for turn_again, first_turn in zip(continued_episode.turns, truncated_episode.turns, strict=True):
            assert (turn_again.segments, turn_again.action, turn_again.event, turn_again.truncated) == (
                first_turn.segments,
                first_turn.action,
                first_turn.event,
                first_turn.truncated,
            )


def test_an_error_is_raised_if_no_prompt_fits():
    engine = make_engine(context=4, warmup={"updates": 1, "games": 2})
    with pytest.raises(
        ModelError, match=r"No conversation of this step fits into the context of 4 tokens.*Raise model\.context"
    ):
        play_round(engine.config, engine, Methods.of(engine.config, []), RunState())
    with pytest.raises(
        ModelError,
        match=r"No conversation of this update of the warm-up fits into the context of 4 tokens.*Raise model\.context",
    ):
        warm_up(engine.config, engine)


def test_replies_beyond_the_context_have_no_probability():
    large_engine, small_engine = make_engine(game="kuhn_poker", context=64), make_engine(game="kuhn_poker", context=8)
    for engine in (large_engine, small_engine):
        game = engine.environments[0][0]
        report = evaluate_exploitability(game, enumerate_info_states(game), engine.agent("policy"))
        assert math.isfinite(report.nash_conv)
    states = enumerate_info_states(large_engine.environments[0][0])
    agent = small_engine.agent("policy")
    is_too_long = [len(agent._conversation(query)) + agent.params.max_new_tokens > 8 for query in states.queries]
    assert [bool(np.isneginf(row).all()) for row in agent.action_logprobs(states.queries)] == is_too_long
    assert any(is_too_long) and not all(is_too_long)


def test_the_context_of_a_pretrained_model_is_also_limited():
    network = make_engine(context=64).model.network
    tokenizer = make_engine(context=64).model.tokenizer
    assert LanguageModel(network, tokenizer).context == 64
    assert LanguageModel(network, tokenizer, longest=32).context == 32
    assert LanguageModel(network, tokenizer, longest=32).clone().context == 32
    assert LanguageModel(network, tokenizer, longest=1000).context == 64
    assert resolve({"environments": [{"name": "kuhn_poker"}]}).model.context is None
    assert make_engine(context=None).model.context == 128


def test_an_edited_conversation_stays_too_long():
    def conversation(past, text):
        return tuple(range(10 * (len(past) + 1)))

    renderer = SimpleNamespace(
        prefix_stable=False,
        initial=lambda text: tuple(range(10)),
        conversation=conversation,
        close=lambda cut: (),
        stop_ids=(),
    )
    ledger = Ledger(renderer)
    ledger.ask("one")
    first_segments = ledger.record(Reply(text="x", ids=(7,), logprobs=(-0.1,)))
    lengths, turns = [], []
    for _ in range(2):
        ledger.ask("more")
        lengths.append(len(ledger.ids))
        turns.append(ledger.record(Reply(text="", truncated=True)))
    assert lengths == [20, 30]
    assert [(segment.kind, segment.ids) for segment in first_segments] == [
        ("prompt", tuple(range(10))),
        ("sampled", (7,)),
    ]
    assert [[(segment.kind, segment.ids) for segment in segments] for segments in turns] == [
        [("prompt", (0,)), ("sampled", ())]
    ] * 2
    assert ledger.conversation == 2


def test_a_reply_limit_as_long_as_the_context_is_refused():
    make_engine(rollout={"max_new_tokens": CONTEXT - 1})
    with pytest.raises(
        ConfigError,
        match=r"rollout\.max_new_tokens=20 leaves no room for a prompt in the model's context of 20 tokens; write fewer, such as 10",
    ):
        make_engine(rollout={"max_new_tokens": CONTEXT})
