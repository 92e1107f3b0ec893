"""A pretrained language model with a system message as a player."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from sparring.config.parts import CountTo1M, Positive
from sparring.config.plugins.registry import bind
from sparring.core.files import file_digest
from sparring.core.records import SamplingParams
from sparring.models.render.answers import Answer
from sparring.play.players.base import Agent
from sparring.play.players.policy import check_reply_length, policy


def prompted(
    *,
    model: str,
    system: str = "",
    answer: Answer = "free",
    template: str | None = None,
    max_new_tokens: CountTo1M = 32,
    temperature: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0,
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    in_flight: Positive = 16,
) -> Agent:
    """A pretrained chat model without further training, with a system message.

    What: the model has the prompts of a policy with the renderer ``chat``, after the system
    message. The weights never change. Several players of one model share its weights.
    When to use: as the baseline of training; as a population of styles for a matchmaker, each with
    its own system message (as in SLA's population); to play against.
    Pitfalls: a small model seldom gives a legal action unless ``answer`` finds it in free text.
    Reference: Xu et al., 2024, arXiv:2310.18940, whose population has prompted styles.
    Verified by: tests/play/players/test_prompted.py.

    Args:
        model: a packaged model (smollm2-135m), a folder or a Hugging Face id.
        system: the system message, such as "You accuse somebody whenever you speak.". Empty
            (default): the system message of the chat template, if it has one.
        answer: form of the action, as in the renderer ``chat``. Default "free".
        template: chat template in place of the model's own, as in the renderer ``chat``.
        max_new_tokens: longest reply in tokens, the stop token included. Default 32.
        temperature: sampling temperature, above 0. Default 1.
        top_p: nucleus sampling, in (0, 1]; 1 (default) is off.
        dtype: number type of the weights. Default "float32".
        in_flight: number of episodes at once, at least 1, so that they fit into the sampler's KV
            cache. Default 16.

    Raises:
        ConfigError: ``max_new_tokens`` leaves no room for a prompt in the model's context.
        ModelError: the model is damaged, does not fit into memory or has no chat template.
        UnknownNameError: the model is not on this machine, and is not a Hugging Face id.
    """
    loaded_model, sampler = _load_model_and_sampler(model, dtype)
    check_reply_length(f"Agent 'prompted' of {model}: ", max_new_tokens, loaded_model.context)
    return policy(
        sampler=sampler,
        renderer=bind("render", "chat", {"system": system, "answer": answer, "template": template})(
            loaded_model.tokenizer
        ),
        params=SamplingParams(max_new_tokens=max_new_tokens, temperature=temperature, top_p=top_p),
        name="prompted",
        in_flight=in_flight,
    )


def identity_of(model: str, **options: Any) -> dict[str, str]:
    """Return the digests of the files of a model's folder; {} if the model is not a folder."""
    root = Path(model).expanduser()
    if not root.is_dir():
        return {}
    files = sorted(path for path in root.iterdir() if path.is_file())
    return {path.name: file_digest(path) for path in files}


@cache
def _load_model_and_sampler(model: str, dtype: str) -> tuple[Any, Any]:
    from sparring.models.load import base_model  # torch is loaded only where the model plays

    loaded_model = base_model(model, dtype, "auto")
    return loaded_model, bind("samplers", "in_process")(loaded_model)
