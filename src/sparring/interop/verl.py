"""Sparring's estimators and losses in verl's registries, as ``sparring_NAME[_PRESET]``.

Importing this module registers them; ``VERL_USE_EXTERNAL_MODULES=sparring.interop.verl`` makes
every process of verl do so.

Estimators, ``algorithm.adv_estimator: sparring_NAME``: a row of the batch is a trajectory, an
unbroken run of its ``response_mask`` a turn, ``uid`` the group. A turn's reward is the sum of
``token_level_rewards`` from its first token to the next turn. Options are the entries of
``algorithm.sparring``. Further facts of a game (roles, seats, views; see ``rows.py``) go into
``non_tensor_batch`` as ``sparring_role`` and so on. verl passes estimators only rewards, mask and
``uid``: ``pass_columns()`` wraps its ``compute_advantage`` so that they also read columns, the
critic's values and log-probabilities.

Losses, ``actor.policy_loss.loss_mode: sparring_NAME``: values per token, averaged by verl's own
``agg_loss``. A loss over the whole minibatch reads the micro-batch, as verl's own losses do.

Only this module imports verl; tested with 0.9.1.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sparring.config.plugins.registry import bind, load, names
from sparring.core.errors import ConfigError, CreditError
from sparring.core.records import FloatArray
from sparring.interop.rows import PREFIX, VERL_HINTS, TrainerRows, estimate
from sparring.interop.spans import Spans, spans
from sparring.interop.terms import Terms

NUMBERS = ("old_log_probs", "rollout_log_probs", "ref_log_prob")


def numbers_of(tensor: Tensor) -> FloatArray:
    """Return a tensor as float64."""
    numbers: FloatArray = tensor.detach().double().cpu().numpy()
    return numbers


def rows_of(
    place: Spans, rewards: FloatArray, group: list[Any], known: Mapping[str, Any]
) -> TrainerRows:
    """Return verl's batch as rows of turns."""
    columns = {
        name.removeprefix(PREFIX): list(values)
        for name, values in known.items()
        if name.startswith(PREFIX)
    }
    arrays = {
        name: numbers_of(known[name])
        for name in (*NUMBERS, "values")
        if known.get(name) is not None
    }
    numbers = {}
    if "old_log_probs" in arrays:
        numbers["old_logprob"] = numbers["logprob"] = place.sampled(arrays["old_log_probs"])
    if "rollout_log_probs" in arrays:
        numbers["logprob"] = place.sampled(arrays["rollout_log_probs"])
    if "ref_log_prob" in arrays:
        numbers["reference_logprob"] = place.sampled(arrays["ref_log_prob"])
    values = arrays.get("values")
    if values is not None:
        numbers["value"] = place.first(values)
    return TrainerRows(
        num_turns=place.num_turns,
        n_tokens=place.n_tokens,
        reward=place.total(rewards),
        group=group,
        columns=columns,
        numbers=numbers,
        token_value=None if values is None else values[place.mask],
    )


try:
    core_algos: Any = importlib.import_module("verl.trainer.ppo.core_algos")
    omegaconf: Any = importlib.import_module("omegaconf")
except ImportError as error:
    raise ConfigError(
        f"sparring.interop.verl needs the package verl ({error}); install it with: pip install "
        "verl==0.9.1"
    ) from error

GIVEN_TO_LOSSES = frozenset({"whole"})
HINTS_FOR_LOSSES = {
    "entropy": "for an entropy bonus set actor.entropy_coeff",
    "reference_logprobs": "for a KL penalty set actor.use_kl_loss",
    "old_logprobs": "to correct for the sampler set algorithm.rollout_correction",
    "values": "verl's critic has a loss of its own, critic.enable",
}
_BATCH: ContextVar[Mapping[str, Any] | None] = ContextVar("sparring_verl_batch", default=None)


class Estimator:
    """An estimator in verl's form, which holds the running state between calls."""

    def __init__(self, name: str, preset: str | None = None) -> None:
        self.name, self.preset = name, preset
        self.__name__ = registered(name, preset)
        self._state: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}

    def state(self) -> dict[str, Any]:
        """Return the running state as values of JSON, as verl's checkpoints do not hold it."""
        return self._state

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Set the running state."""
        self._state = dict(state)

    def __call__(
        self,
        token_level_rewards: Tensor,
        response_mask: Tensor,
        index: Any = None,
        config: Any = None,
        **columns: Any,
    ) -> tuple[Tensor, Tensor]:
        """Return (advantages, critic's targets) [B, L]; without targets, the advantages twice.

        Args:
            token_level_rewards: [B, L].
            response_mask: [B, L].
            index: [B] group of each row, verl's ``uid``.
            config: ``algorithm``, whose entry ``sparring`` holds the estimator's options.
            columns: ``non_tensor_batch``, columns ``sparring_*``, and tensors such as ``values``,
                if the caller has them.

        Raises:
            CreditError: the batch lacks a column that the estimator needs.
            ConfigError: an option is wrong.
        """
        if index is None:
            raise CreditError(
                f"{self.__name__} needs the groups of rows: fill non_tensor_batch['uid']."
            )
        bound = bind("credit", self.name, _options(config), preset=self.preset)
        if bound.schedules:
            raise ConfigError(
                f"{self.__name__}: verl does not say how far a run is; write "
                f"numbers: {sorted(bound.schedules)}."
            )
        fields = {
            **(_BATCH.get() or {}),
            **(columns.pop("non_tensor_batch", None) or {}),
            **dict(columns.pop("batch", None) or {}),
            **columns,
        }
        mask = response_mask.detach().cpu().numpy().astype(bool)
        rows = rows_of(spans(mask), numbers_of(token_level_rewards), list(index), fields)
        result = estimate(bound, rows, self._state, VERL_HINTS)
        self._state, self.metrics = result.credit.state, dict(result.credit.metrics)

        def placed(values: FloatArray) -> Tensor:
            """Return a matrix with values at the sampled tokens."""
            out = np.zeros(mask.shape)
            out[mask] = values
            return torch.from_numpy(out).to(token_level_rewards.device, token_level_rewards.dtype)

        advantages = placed(result.advantages)
        return advantages, advantages.clone() if result.value_targets is None else placed(
            result.value_targets
        )


class PolicyLoss:
    """A sum of losses in verl's form."""

    def __init__(self, name: str, losses: Mapping[str, Mapping[str, Any]]) -> None:
        self.__name__ = name
        self.terms = Terms(
            losses, trainer="verl", available=GIVEN_TO_LOSSES, hints=HINTS_FOR_LOSSES
        )

    def __call__(
        self,
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: Tensor | None = None,
        **ignored: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return (loss of a micro-batch, metrics); all tensors [B, L].

        Raises:
            ConfigError: verl does not pass what a loss needs.
        """
        self.terms.check()
        mask = response_mask.bool()
        info = dict(getattr(config, "global_batch_info", None) or {})
        if not bool(mask.any()):
            return (log_prob * 0.0).sum(), {}
        factor = None if rollout_is_weights is None else rollout_is_weights[mask]
        columns = {"logprobs": log_prob, "old_logprobs": old_log_prob, "advantages": advantages}
        combined = self.terms(self.terms.batch(mask, columns), factor=factor)
        per_token = torch.zeros_like(log_prob).masked_scatter(mask, combined.values)
        loss = core_algos.agg_loss(
            loss_mat=per_token, loss_mask=mask, loss_agg_mode=loss_agg_mode, **info
        )
        share = {
            key: value for key, value in info.items() if key in ("dp_size", "batch_num_tokens")
        }
        part = core_algos.agg_loss(
            loss_mat=torch.ones_like(log_prob), loss_mask=mask, loss_agg_mode="token-mean", **share
        )
        return loss + combined.summed * part, {
            f"actor/{name}": value for name, value in combined.metrics.items()
        }


def registered(name: str, preset: str | None = None) -> str:
    """Return a plug-in's name in verl's registries."""
    return PREFIX + name + (f"_{preset}" if preset else "")


def _variants(slot: str) -> Iterator[tuple[str, str | None]]:
    for name in names(slot):
        yield from ((name, preset) for preset in (None, *load(slot, name).presets))


def register_loss(name: str, losses: Mapping[str, Mapping[str, Any]]) -> PolicyLoss:
    """Register a weighted sum of losses with verl.

    Args:
        name: for ``actor.policy_loss.loss_mode``.
        losses: loss -> options, with ``weight`` and ``preset``. Example: {"ppo_clip": {"clip_high":
            0.28}}.
    """
    loss = PolicyLoss(name, losses)
    core_algos.register_policy_loss(name)(loss)
    return loss


ESTIMATORS: dict[str, Estimator] = {
    registered(*variant): Estimator(*variant) for variant in _variants("credit")
}
for _name, _estimator in ESTIMATORS.items():
    core_algos.register_adv_est(_name)(_estimator)
LOSSES = {
    registered(name, preset): register_loss(
        registered(name, preset), {name: {} if preset is None else {"preset": preset}}
    )
    for name, preset in _variants("losses")
}


def state() -> dict[str, Any]:
    """Return the running state of all estimators that have one, for a checkpoint."""
    return {name: estimator.state() for name, estimator in ESTIMATORS.items() if estimator.state()}


def load_state(saved: Mapping[str, Any]) -> None:
    """Set the running state of all estimators; those without one get an empty state."""
    for name, estimator in ESTIMATORS.items():
        estimator.load_state(saved.get(name, {}))


@contextmanager
def batch(data: Any) -> Iterator[None]:
    """Let estimators inside the context read all of a DataProto."""
    token = _BATCH.set({**dict(data.batch.items()), **dict(data.non_tensor_batch)})
    try:
        yield
    finally:
        _BATCH.reset(token)


def pass_columns() -> None:
    """Wrap verl's ``compute_advantage`` so that estimators read the whole batch; call it once."""
    trainer: Any = importlib.import_module("verl.trainer.ppo.ray_trainer")
    inner: Callable[..., Any] = trainer.compute_advantage
    if getattr(inner, "_sparring", False):
        return

    @functools.wraps(inner)
    def with_columns(data: Any, *args: Any, **options: Any) -> Any:
        with batch(data):
            return inner(data, *args, **options)

    with_columns._sparring = True  # type: ignore[attr-defined]
    trainer.compute_advantage = with_columns


def _options(config: Any) -> dict[str, Any]:
    """Return the estimator's options in ``algorithm``."""
    options = config.get("sparring", None) if config is not None else None
    if options is not None and omegaconf.OmegaConf.is_config(options):
        options = omegaconf.OmegaConf.to_container(options, resolve=True)
    return {str(key): value for key, value in (options or {}).items()}
