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


def replies_and_first_prompt(agent, plays=6):
    """Return the replies of an agent against random play, and the text of its first prompt."""
    episodes = sparring.play_episodes(GAME, [agent, "random"], plays=plays)
    turns = [turn for episode in episodes for turn in episode.turns if turn.seat == 0]
    ids = [index for segment in turns[0].segments if segment.kind != "sampled" for index in segment.ids]
    return [turn.reply for turn in turns], agent.renderer.tokenizer.decode(ids)


def test_the_system_message_is_before_the_rules_in_the_prompt(chat_folder):
    plain_player, bold_player = (
        prompted(model=str(chat_folder), system=text, max_new_tokens=4) for text in ("", "You bet whatever you hold.")
    )
    (replies, prompt), (bold_replies, bold_prompt) = (
        replies_and_first_prompt(plain_player),
        replies_and_first_prompt(bold_player),
    )
    assert "You bet whatever you hold." not in prompt and "Kuhn poker" in prompt
    assert bold_prompt.index("You bet whatever you hold.") < bold_prompt.index("Kuhn poker")
    assert replies != bold_replies and len(replies) == len(bold_replies)
    assert replies_and_first_prompt(bold_player)[0] == bold_replies  # deterministic


def test_replies_as_long_as_the_context_are_refused(chat_folder):
    context = prompted(model=str(chat_folder)).sampler.model.context
    prompted(model=str(chat_folder), max_new_tokens=context - 1)
    with pytest.raises(
        ConfigError,
        match=f"max_new_tokens={context} leaves no room for a prompt in the model.s context of {context} tokens",
    ):
        prompted(model=str(chat_folder), max_new_tokens=context)


def test_players_of_one_model_share_its_weights(chat_folder):
    first_player, second_player = (prompted(model=str(chat_folder), system=text) for text in ("a", "b"))
    assert first_player.sampler is second_player.sampler and not any(
        parameter.requires_grad for parameter in first_player.sampler.model.parameters()
    )


def test_every_declared_end_token_ends_a_reply_and_adds_probability(chat_folder, tmp_path):
    """An end id that is no special token is ignored, because it may be a default of the library."""
    shutil.copytree(chat_folder, tmp_path / "model")
    agent = prompted(model=str(chat_folder))
    (end_id,), (other_end_id,) = (
        agent.renderer.stop_ids,
        agent.renderer.tokenizer("<|im_start|>", add_special_tokens=False)["input_ids"],
    )
    (tmp_path / "model" / "generation_config.json").write_text(json.dumps({"eos_token_id": [other_end_id, end_id, 2]}))
    player = prompted(model=str(tmp_path / "model"))
    assert player.renderer.stop_ids == (end_id, other_end_id)
    prompt, actions = player.renderer.initial("one"), ("bet", "pass")
    (logprobs,) = player.reply_logprobs([prompt], [actions])
    replies = [player.renderer.reply(action) for action in actions]
    logprobs_with_end, logprobs_with_other_end = (
        player.sampler.score([prompt], [[(*ids[:-1], last_id) for ids in replies]], player.params)[0]
        for last_id in (end_id, other_end_id)
    )
    np.testing.assert_allclose(np.exp(logprobs), np.exp(logprobs_with_end) + np.exp(logprobs_with_other_end), rtol=1e-6)
    np.testing.assert_array_equal(agent.reply_logprobs([prompt], [actions])[0], logprobs_with_end)


def test_without_a_message_it_equals_an_untrained_run_of_the_model(chat_folder):
    config = resolve(
        {
            "environments": [{"name": "kuhn_poker", "options": {"style": "full"}}],
            "model": {"name": str(chat_folder), "lora": {"rank": 2}},
            "renderer": {"name": "chat", "answer": "boxed"},
            "rollout": {"games_per_step": 2, "max_new_tokens": 6, "temperature": 0.7},
            "threads": 1,
        }
    )
    untrained_policy = LocalEngine(config).agent("policy")
    prompted_player = prompted(model=str(chat_folder), answer="boxed", max_new_tokens=6, temperature=0.7)
    assert replies_and_first_prompt(prompted_player)[0] == replies_and_first_prompt(untrained_policy)[0]


def test_a_missing_model_is_refused_by_name():
    with pytest.raises(UnknownNameError, match="no-such-model"):
        prompted(model="no-such-model")
    with pytest.raises(ConfigError, match="max_new_tokens"):
        parse_agent("prompted model=x max_new_tokens=0").make()


def test_the_identity_includes_the_files_of_the_model(chat_folder):
    identity = identity_of(model=str(chat_folder), system="a")
    assert "model.safetensors" in identity and identity_of(model="smollm2-135m") == {}
    assert parse_agent(f"prompted model={chat_folder}").identity == identity
