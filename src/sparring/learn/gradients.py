"""A check at the first update: everything that is trained takes part in what is learnt.

A parameter that takes no part, such as an adapter on a layer that the forward pass does not call,
has no gradient at all after the backward pass (one of 0 is a gradient). It would stay as it is for
the whole run, in silence.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from sparring.errors import ModelError
from sparring.models.language_model import LanguageModel

log = logging.getLogger(__name__)
SHOWN = 3  # names in a message


class GradientCheck:
    """Looks at the gradients of the first update, and of the first one of imitation, once each.

    Later ones cost nothing.

    Args:
        model: the model that is trained.
        reads_values: whether a loss reads the value head.
    """

    def __init__(self, model: LanguageModel, *, reads_values: bool) -> None:
        self.model, self.reads_values = model, reads_values
        self._done: set[bool] = set()

    def backward(self, loss: Tensor, logprobs: Tensor) -> None:
        """Add the gradients of a loss to those of the weights.

        Raises:
            ModelError: the loss depends on nothing that is trained.
        """
        if not loss.requires_grad:
            if logprobs.requires_grad:
                raise ModelError(
                    "losses: none of them depends on the model, so nothing can be learnt; add "
                    "policy_gradient or ppo_clip."
                )
            names = [name for name, _ in self._trained(values=False)]
            raise ModelError(_message(names, len(names)))
        torch.autograd.backward(loss)

    def check(self, *, imitating: bool = False) -> None:
        """Look at the gradients, if this is the first time.

        Args:
            imitating: the loss was that of imitation, or another that never reads the value head.

        Raises:
            ModelError: a trained parameter has none. The value head may have none where no loss
                reads it.
        """
        if imitating in self._done:
            return
        self._done.add(imitating)
        found = self._trained(values=self.reads_values and not imitating)
        dead = [name for name, parameter in found if parameter.grad is None]
        if dead:
            raise ModelError(_message(dead, len(found)))
        if self.model.value_head is not None and not self.reads_values and not imitating:
            log.warning(
                "The value head is not trained, as no loss reads it: its values stay 0. Add the "
                "loss value_loss."
            )

    def _trained(self, *, values: bool) -> list[tuple[str, torch.nn.Parameter]]:
        """Return the trained parameters by name, those of the value head only if asked for."""
        modules = [
            (prefix, module)
            for prefix, module in self.model.modules()
            if values or prefix != "value_head"
        ]
        named = [
            (f"{prefix}.{name}", p)
            for prefix, module in modules
            for name, p in module.named_parameters()
        ]
        return [(name, parameter) for name, parameter in named if parameter.requires_grad]


def _message(dead: list[str], total: int) -> str:
    """Return what is wrong with these parameters of so many, and what to write."""
    listed = ", ".join(dead[:SHOWN]) + (
        f" and {len(dead) - SHOWN} more" if len(dead) > SHOWN else ""
    )
    if any("lora_" in name for name in dead):
        advice = (
            "Name layers that the model calls in model.lora.targets (empty: all linear ones), or "
            "leave model.lora out."
        )
    elif any(name.startswith("value_head") for name in dead):
        advice = (
            "Take an estimator that fits a critic (credit: gae), or leave out the loss that reads "
            "values."
        )
    else:
        advice = (
            "Train adapters on layers that take part (model.lora), or freeze these with "
            "requires_grad_(False)."
        )
    return (
        f"{len(dead)} of {total} trained parameters get no gradient, so they would never "
        f"change: {listed}. {advice}"
    )
