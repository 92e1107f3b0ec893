"""Whether our forward pass of a network says what the network's own does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sparring.errors import ModelError
from sparring.models.lean import LeanForward
from sparring.models.prefixes import prefix_tree
from sparring.models.rotations import check_rotations
from sparring.models.settings import LIMITS, numbers_of

if TYPE_CHECKING:
    from sparring.models.language_model import LanguageModel

# largest difference of log-probabilities between this forward and the network's own, in float32
TOLERANCE = 1e-3
# and of their mean in half precision, whose single values are off by several from float32's
HALF_TOLERANCE = 0.5


def check_forward(model: LanguageModel) -> None:
    """Compare a model's forward pass with its network's own; see ``LanguageModel.check``."""
    check_rotations(model.base)
    kind, vocabulary = (
        type(model.base).__name__,
        model.base.get_output_embeddings().weight.shape[0],
    )
    _check_finite(model)
    length = min([12, *numbers_of(model.base, LIMITS)])
    ids = torch.arange(length, device=model.device) * 7919 % vocabulary
    own = _own_logprobs(model, ids)
    if own.isnan().any():
        raise ModelError(
            f"{kind} gives no probabilities: its weights are so large that sums of them overflow. "
            "Take another model."
        )
    begin = max(1, length // 2)
    if not agree(_own_logprobs(model, ids[:begin]), own[:begin], model.base.dtype):
        raise ModelError(
            f"{kind} looks ahead: it reads a text as a whole and cannot write one token after "
            "another."
        )
    tree = prefix_tree([tuple(ids.tolist())]).to(model.device)
    found = model.logits(model.hidden(tree)).float().log_softmax(-1)
    if not agree(found, own, model.base.dtype):
        raise ModelError(
            f"{kind} cannot be run: its log-probabilities differ by up to "
            f"{(found - own).abs().max().item():.2g} from what is computed here."
        )
    if isinstance(model.forward, LeanForward) and model.forward.compiled is not None:
        compiled = _compiled_logprobs(model, model.forward, ids, begin)
        if not agree(compiled, own, model.base.dtype):
            raise ModelError(
                f"The compiled forward pass of {kind} differs by "
                f"{(compiled - own).abs().max().item():.2g} from the model's own. Name another "
                "compiler in $CC, or leave it out by CC=none."
            )


def _check_finite(model: LanguageModel) -> None:
    """Refuse a model whose files hold weights that are no numbers.

    Raises:
        ModelError: one of them is NaN or infinite.
    """
    for name, weight in model.base.named_parameters():
        if weight.numel() and not all(bound.isfinite() for bound in weight.aminmax()):
            raise ModelError(
                f"{name} of {type(model.base).__name__} holds numbers that are NaN or infinite: "
                "its files are damaged, or its training diverged. Take another checkpoint or model."
            )


def _compiled_logprobs(
    model: LanguageModel, forward: LeanForward, ids: Tensor, begin: int
) -> Tensor:
    """Return the log-probabilities [T, V] of compiled code: a beginning read, the rest added."""
    cache = forward.new_cache(1, len(ids), dtype=model.base.dtype, device=model.device)
    tree = prefix_tree([tuple(ids[:begin].tolist())])
    hidden = model.hidden(tree, cache)[tree.node[0]]
    if begin < len(ids):
        rest = model.extend(ids[None, begin:], torch.tensor([begin]), cache)[0]
        hidden = torch.cat([hidden, rest])
    return model.logits(hidden).float().log_softmax(-1)


def agree(one: Tensor, other: Tensor, dtype: torch.dtype) -> bool:
    """Return whether log-probabilities are those of one model, as far as its precision tells.

    In float32 every one is compared. In bfloat16 SmolLM2's own are off by up to 4.9 from float32's
    and by 0.17 in the mean, so that there the mean is.
    """
    difference = (one - other).abs()
    if dtype == torch.float32:
        return bool(difference.max() < TOLERANCE)
    return bool(difference.mean() < HALF_TOLERANCE)


def _own_logprobs(model: LanguageModel, ids: Tensor) -> Tensor:
    """Return the log-probabilities [T, V] of the network's own forward for a sequence [T]."""
    logits: Tensor = model.network(
        input_ids=ids[None], attention_mask=torch.ones_like(ids)[None]
    ).logits[0]
    return logits.float().log_softmax(-1)
