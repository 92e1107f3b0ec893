import json
import shutil

import numpy as np
import pytest

import sparring
from sparring.config import resolve
from sparring.core.errors import ConfigError, UnknownNameError
from sparring.engine.local import LocalEngine
from sparring.environments.catalogue import make_game
from sparring.measure.agent_spec import parse_agent
from sparring.play.players.prompted import identity_of, prompted

GAME = make_game("kuhn_poker", options={"style": "full"}, illegal={"rule": "random"})


def replies_of(agent, plays=6):
    """Return what an agent says against random play, and what it was told in its first turn."""
    episodes = sparring.play_episodes(GAME, [agent, "random"], plays=plays)
    turns = [turn for episode in episodes for turn in episode.turns if turn.seat == 0]
    ids = [index for segment in turns[0].segments if segment.kind != "sampled" for index in segment.ids]
    return [turn.reply for turn in turns], agent.renderer.tokenizer.decode(ids)


def test_it_is_told_the_system_message_before_the_game(chat_folder):
    plain, bold = (
        prompted(model=str(chat_folder), system=text, max_new_tokens=4) for text in ("", "You bet whatever you hold.")
    )
    (replies, prompt), (other, said_to_bold) = replies_of(plain), replies_of(bold)
    assert "You bet whatever you hold." not in prompt and "Kuhn poker" in prompt
    assert said_to_bold.index("You bet whatever you hold.") < said_to_bold.index("Kuhn poker")
    assert replies != other and len(replies) == len(other)
    assert replies_of(bold)[0] == other  # and the same again


def test_replies_as_long_as_the_context_are_refused(chat_folder):
    context = prompted(model=str(chat_folder)).sampler.model.context
    prompted(model=str(chat_folder), max_new_tokens=context - 1)
    with pytest.raises(
        ConfigError,
        match=f"max_new_tokens={context} leaves no room for a prompt in the model.s context of {context} tokens",
    ):
        prompted(model=str(chat_folder), max_new_tokens=context)


def test_players_of_one_model_share_its_weights(chat_folder):
    first, second = (prompted(model=str(chat_folder), system=text) for text in ("a", "b"))
    assert first.sampler is second.sampler and not any(
        parameter.requires_grad for parameter in first.sampler.model.parameters()
    )


def test_every_end_that_the_models_files_declare_ends_a_reply_and_counts_in_its_probability(chat_folder, tmp_path):
    """An id that is no special token is none: it may be a default of the library."""
    shutil.copytree(chat_folder, tmp_path / "model")
    agent = prompted(model=str(chat_folder))
    (end,), (other,) = (
        agent.renderer.stop_ids,
        agent.renderer.tokenizer("<|im_start|>", add_special_tokens=False)["input_ids"],
    )
    (tmp_path / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": [other, end, 2]}))
    several = prompted(model=str(tmp_path / "model"))
    assert several.renderer.stop_ids == (end, other)
    prompt, actions = several.renderer.initial("one"), ("bet", "pass")
    (logprobs,) = several.reply_logprobs([prompt], [actions])
    replies = [several.renderer.reply(action) for action in actions]
    by_end, by_other = (
        several.sampler.score([prompt], [[(*ids[:-1], last) for ids in replies]], several.params)[0]
        for last in (end, other)
    )
    np.testing.assert_allclose(np.exp(logprobs), np.exp(by_end) + np.exp(by_other), rtol=1e-6)
    np.testing.assert_array_equal(agent.reply_logprobs([prompt], [actions])[0], by_end)


def test_without_a_message_it_is_the_start_of_a_run_of_the_model(chat_folder):
    config = resolve(
        {
            "environments": [{"name": "kuhn_poker", "options": {"style": "full"}}],
            "model": {"name": str(chat_folder), "lora": {"rank": 2}},
            "renderer": {"name": "chat", "answer": "boxed"},
            "rollout": {"games_per_step": 2, "max_new_tokens": 6, "temperature": 0.7},
            "threads": 1,
        }
    )
    start = LocalEngine(config).agent("policy")
    alone = prompted(model=str(chat_folder), answer="boxed", max_new_tokens=6, temperature=0.7)
    assert replies_of(alone)[0] == replies_of(start)[0]


def test_a_model_that_is_not_there_is_named():
    with pytest.raises(UnknownNameError, match="no-such-model"):
        prompted(model="no-such-model")
    with pytest.raises(ConfigError, match="max_new_tokens"):
        parse_agent("prompted model=x max_new_tokens=0").make()


def test_what_a_folder_holds_is_part_of_who_plays(chat_folder):
    identity = identity_of(model=str(chat_folder), system="a")
    assert "model.safetensors" in identity and identity_of(model="smollm2-135m") == {}
    assert parse_agent(f"prompted model={chat_folder}").identity == identity
