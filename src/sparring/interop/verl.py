"""Registers Sparring's estimators and losses with verl, as ``sparring_NAME[_PRESET]``.

Importing this module registers them. The environment variable
``VERL_USE_EXTERNAL_MODULES=sparring.interop.verl`` makes every process of verl import it.

Estimators (``algorithm.adv_estimator: sparring_NAME``): a row of the batch is a trajectory, and
rows with equal ``uid`` are a group. Each unbroken span of ones in ``response_mask`` is a turn. A
turn's reward is the sum of ``token_level_rewards`` from its first token to the next turn. The
entries of ``algorithm.sparring`` are the estimator's options.

verl passes only rewards, mask and ``uid`` to estimators. After ``pass_columns()`` they also read
the critic's values, log-probabilities and the columns ``sparring_role``, ``sparring_view`` and so
on of ``non_tensor_batch``; ``rows.py`` lists these columns.

Losses (``actor.policy_loss.loss_mode: sparring_NAME``): verl's ``agg_loss`` averages the values per
token. A loss over the whole minibatch gets only the micro-batch, as verl's own losses do.

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

LOGPROB_COLUMNS = ("old_log_probs", "rollout_log_probs", "ref_log_prob")


def to_float64(tensor: Tensor) -> FloatArray:
    """Return a tensor's values as a float64 array on the CPU."""
    numbers: FloatArray = tensor.detach().double().cpu().numpy()
    return numbers


def make_rows(
    turns: Spans, rewards: FloatArray, group: list[Any], fields: Mapping[str, Any]
) -> TrainerRows:
    """Return verl's batch in the form that all bridges share.

    Args:
        turns: positions of the turns.
        rewards: ``token_level_rewards`` [B, L].
        group: ``uid`` of each row [B].
        fields: tensors and columns of the batch, by name.
    """
    columns = {
        name.removeprefix(PREFIX): list(values)
        for name, values in fields.items()
        if name.startswith(PREFIX)
    }
    arrays = {
        name: to_float64(fields[name])
        for name in (*LOGPROB_COLUMNS, "values")
        if fields.get(name) is not None
    }
    numbers = {}
    if "old_log_probs" in arrays:
        old_logprobs = turns.sum_over_sampled(arrays["old_log_probs"])
        numbers["old_logprob"] = numbers["logprob"] = old_logprobs
    if "rollout_log_probs" in arrays:
        numbers["logprob"] = turns.sum_over_sampled(arrays["rollout_log_probs"])
    if "ref_log_prob" in arrays:
        numbers["reference_logprob"] = turns.sum_over_sampled(arrays["ref_log_prob"])
    values = arrays.get("values")
    if values is not None:
        numbers["value"] = turns.at_first_token(values)
    return TrainerRows(
        num_turns=turns.num_turns,
        n_tokens=turns.n_tokens,
        reward=turns.sum_by_turn(rewards),
        group=group,
        columns=columns,
        numbers=numbers,
        token_value=None if values is None else values[turns.mask],
    )


try:
    core_algos: Any = importlib.import_module("verl.trainer.ppo.core_algos")
    omegaconf: Any = importlib.import_module("omegaconf")
except ImportError as error:
    raise ConfigError(
        f"sparring.interop.verl needs the package verl ({error}); install it with: pip install "
        "verl==0.9.1"
    ) from error

AVAILABLE_FIELDS = frozenset({"whole"})
HINTS_FOR_LOSSES = {
    "entropy": "for an entropy bonus set actor.entropy_coeff",
    "reference_logprobs": "for a KL penalty set actor.use_kl_loss",
    "old_logprobs": "to correct for the sampler set algorithm.rollout_correction",
    "values": "to train a critic set critic.enable, as verl has its own loss for it",
}
_BATCH: ContextVar[Mapping[str, Any] | None] = ContextVar("sparring_verl_batch", default=None)


class Estimator:
    """An estimator that verl can call; it holds the running state between calls."""

    def __init__(self, name: str, preset: str | None = None) -> None:
        self.name, self.preset = name, preset
        self.__name__ = registered_name(name, preset)
        self._state: dict[str, Any] = {}
        self.metrics: dict[str, float] = {}

    def state(self) -> dict[str, Any]:
        """Return the running state as JSON values; verl's checkpoints do not contain it."""
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
        """Return (advantages, critic targets) [B, L]; without targets, the advantages twice.

        Args:
            token_level_rewards: rewards [B, L].
            response_mask: 1 at sampled tokens [B, L].
            index: group of each row [B], verl's ``uid``.
            config: section ``algorithm``; its entry ``sparring`` holds the estimator's options.
            columns: optional: ``non_tensor_batch``, columns ``sparring_*``, and tensors such as
                ``values``.

        Raises:
            CreditError: the batch lacks a column that the estimator needs.
            ConfigError: an option is wrong.
        """
        if index is None:
            raise CreditError(
                f"{self.__name__} needs the group of each row: fill non_tensor_batch['uid']."
            )
        estimator = bind("credit", self.name, _options(config), preset=self.preset)
        if estimator.schedules:
            raise ConfigError(
                f"{self.__name__}: verl does not report the progress of a run; write numbers, not "
                f"schedules: {sorted(estimator.schedules)}."
            )
        fields = {
            **(_BATCH.get() or {}),
            **(columns.pop("non_tensor_batch", None) or {}),
            **dict(columns.pop("batch", None) or {}),
            **columns,
        }
        mask = response_mask.detach().cpu().numpy().astype(bool)
        rows = make_rows(spans(mask), to_float64(token_level_rewards), list(index), fields)
        result = estimate(estimator, rows, self._state, VERL_HINTS)
        self._state, self.metrics = result.credit.state, dict(result.credit.metrics)

        def to_matrix(values: FloatArray) -> Tensor:
            """Return a matrix [B, L] with these values at the sampled tokens and 0 elsewhere."""
            array = np.zeros(mask.shape)
            array[mask] = values
            return torch.from_numpy(array).to(token_level_rewards.device, token_level_rewards.dtype)

        advantages, targets = to_matrix(result.advantages), result.value_targets
        return advantages, advantages.clone() if targets is None else to_matrix(targets)


class PolicyLoss:
    """A weighted sum of losses, as a function that verl can call."""

    def __init__(self, name: str, losses: Mapping[str, Mapping[str, Any]]) -> None:
        self.__name__ = name
        self.terms = Terms(
            losses, trainer="verl", available=AVAILABLE_FIELDS, hints=HINTS_FOR_LOSSES
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
        """Return (loss of a micro-batch, metrics) from tensors [B, L].

        Raises:
            ConfigError: a loss needs a field that verl does not supply.
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
        sizes = {
            key: value for key, value in info.items() if key in ("dp_size", "batch_num_tokens")
        }
        share_of_tokens = core_algos.agg_loss(
            loss_mat=torch.ones_like(log_prob), loss_mask=mask, loss_agg_mode="token-mean", **sizes
        )
        return loss + combined.summed * share_of_tokens, {
            f"actor/{name}": value for name, value in combined.metrics.items()
        }


def registered_name(name: str, preset: str | None = None) -> str:
    """Return a plug-in's name in verl's registries."""
    return PREFIX + name + (f"_{preset}" if preset else "")


def _names_and_presets(slot: str) -> Iterator[tuple[str, str | None]]:
    for name in names(slot):
        yield from ((name, preset) for preset in (None, *load(slot, name).presets))


def register_loss(name: str, losses: Mapping[str, Mapping[str, Any]]) -> PolicyLoss:
    """Register a weighted sum of losses with verl.

    Args:
        name: name of the loss in ``actor.policy_loss.loss_mode``.
        losses: options by name of the loss, with ``weight`` and ``preset``, e.g.
            {"ppo_clip": {"clip_high": 0.28}}.
    """
    loss = PolicyLoss(name, losses)
    core_algos.register_policy_loss(name)(loss)
    return loss


ESTIMATORS: dict[str, Estimator] = {
    registered_name(*choice): Estimator(*choice) for choice in _names_and_presets("credit")
}
for _name, _estimator in ESTIMATORS.items():
    core_algos.register_adv_est(_name)(_estimator)
LOSSES = {
    registered_name(name, preset): register_loss(
        registered_name(name, preset), {name: {} if preset is None else {"preset": preset}}
    )
    for name, preset in _names_and_presets("losses")
}


def state() -> dict[str, Any]:
    """Return the running state of all estimators that have one, for a checkpoint."""
    return {name: estimator.state() for name, estimator in ESTIMATORS.items() if estimator.state()}


def load_state(states: Mapping[str, Any]) -> None:
    """Set the running state of all estimators; it is empty for those that ``states`` lacks."""
    for name, estimator in ESTIMATORS.items():
        estimator.load_state(states.get(name, {}))


@contextmanager
def batch(data: Any) -> Iterator[None]:
    """Let estimators read the whole ``DataProto`` while the context is open."""
    token = _BATCH.set({**dict(data.batch.items()), **dict(data.non_tensor_batch)})
    try:
        yield
    finally:
        _BATCH.reset(token)


def pass_columns() -> None:
    """Wrap verl's ``compute_advantage`` so that estimators read the whole batch; call it once."""
    trainer: Any = importlib.import_module("verl.trainer.ppo.ray_trainer")
    original: Callable[..., Any] = trainer.compute_advantage
    if getattr(original, "_sparring", False):
        return

    @functools.wraps(original)
    def compute_with_columns(data: Any, *args: Any, **options: Any) -> Any:
        with batch(data):
            return original(data, *args, **options)

    compute_with_columns._sparring = True  # type: ignore[attr-defined]
    trainer.compute_advantage = compute_with_columns


def _options(config: Any) -> dict[str, Any]:
    options = config.get("sparring", None) if config is not None else None
    if options is not None and omegaconf.OmegaConf.is_config(options):
        options = omegaconf.OmegaConf.to_container(options, resolve=True)
    return {str(key): value for key, value in (options or {}).items()}
