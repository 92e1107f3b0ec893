"""The credit lab: every advantage estimator against the exact policy gradient.

All of them are given the same episodes of a small game.

A table policy plays; each estimator is called on batch after batch as in a run, its running state
carried on; its advantages give the gradient of every batch in the table's logits, which is compared
with the exact one (see ``gradient_figures``).

Control variates. The figures of the expected gradient are measured with less noise by subtracting
gradients whose expectation is known: those of the returns, of the returns from the turn on and of
exact Q - V (each the exact gradient), and those of advantages 1, V and the mean return of the same
seat in the group's other games (0). So the row of an estimator that is made of these says 0 by
construction; ``bias_unpaired`` does without.

Estimators that read values by playing on (``vine_ppo``) are given those of games that the table
goes on with (``lab_columns``). With ``LabPlan.reward`` all of them are paid by that reward in place
of the game, and are still held to the game's return.

An estimator whose head predicts contributions (``CRITIC``) has those of a fitted head for
``value_after``: with perfect recall they are the differences of Q along a play, and the mean return
of the plays that end there at a seat's last turn.

Estimators that read a reward for every turn (``ppr``, ``spae``, ``ssl``, ``vpr``) are paid one
besides, by a judge that knows the exact values (``LabEpisodes.judgements``); all others see the
game's own rewards.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from sparring.environments.openspiel.base import Game
from sparring.errors import ConfigError, CreditError, SparringError
from sparring.measure.exact_values import exact_values
from sparring.measure.gradient_figures import (
    GradientFigures,
    GradientLayout,
    Products,
    figures,
    paired_products,
)
from sparring.measure.lab_columns import continued, paid_by
from sparring.measure.lab_episodes import LabEpisodes, cut, lab_episodes, play_table, tiled
from sparring.measure.lab_plan import (
    Estimator,
    LabPlan,
    LabReport,
    LabRow,
    bind_estimator,
    bind_reward,
)
from sparring.measure.table_policy import TablePolicy, exact_gradient
from sparring.ops.groups import group_ids, leave_one_out_mean
from sparring.ops.returns import discounted_returns, trajectory_starts, trajectory_sums
from sparring.registry import Bound
from sparring.rng import Stream
from sparring.types import Credit, FloatArray, TurnTable

TIMED_ROWS = 100_000
SIGN_TOLERANCE = 1e-9  # turns with a smaller |Q - V| have no right sign


class CreditLab:
    """Episodes of one game, played once, on which estimators are measured.

    Args:
        game: the game.
        policy: sits in every seat; over the game's information states.
        plan: how much is played and how it is cut.

    Raises:
        ConfigError: sizes that do not fit, or a policy whose exact gradient is 0.
    """

    def __init__(self, game: Game, policy: TablePolicy, plan: LabPlan) -> None:
        self.game, self.policy, self.plan = game, policy, plan
        self.values = exact_values(policy.states, policy.rows)
        self.exact = exact_gradient(policy, self.values)
        if not np.linalg.norm(self.exact) > 1e-12:
            raise ConfigError(
                f"The exact gradient of this policy in {game.name!r} is 0: nothing to compare "
                "with. Write --policy random."
            )
        stream = Stream.from_seed(plan.seed).child("credit lab").child(game.name)
        sizes = {"batch_size": plan.batch_size, "group_size": plan.group_size}
        episodes = play_table(
            game, policy, batches=plan.batches, stream=stream.child("play"), **sizes
        )
        played = lab_episodes(
            episodes,
            policy,
            self.values,
            batch_size=plan.batch_size,
            critic=plan.critic,
            stream=stream.child("critic"),
        )
        self.episodes, self.whole, self.played = episodes, played, _without(played, plan.skipped)
        self.shown = played  # to estimators
        if plan.reward:
            self.shown = paid_by(played, episodes, game, bind_reward(plan.reward))
        self.tables = self.shown.tables()
        self.first = len(played.batch) - len(self.played.batch)  # the first turn that counts
        self.layout = GradientLayout.of(self.played, policy)
        self.controls, self.expectations = self._controls()

    def _controls(self) -> tuple[FloatArray, FloatArray]:
        """Return gradients whose expectation is known, [K, S], and that expectation, [K].

        It is in units of the exact gradient.
        """
        turns = self.played.turns
        starts = trajectory_starts(turns.trajectory)
        trajectory = np.cumsum(np.diff(turns.trajectory, prepend=-1) != 0) - 1
        whole = trajectory_sums(turns.reward, turns.trajectory)
        rest = discounted_returns(turns.reward, turns.trajectory, gamma=1.0)
        known = [
            whole[trajectory],
            rest,
            self.played.advantage,
            np.ones(len(rest)),
            self.values.state[self.played.state],
        ]
        if self.plan.group_size > 1:
            groups, count = group_ids(turns.group[starts], turns.seat[starts])
            known.append(leave_one_out_mean(whole, groups, count)[trajectory])
        expectations = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])[: len(known)]
        return np.array([self.layout.gradients(advantages) for advantages in known]), expectations

    def report(self, estimators: Sequence[str]) -> LabReport:
        """Measure estimators, as ``estimator_names`` gives them."""
        plain = Products.of(self.layout, self.controls[0], self.exact)
        return LabReport(
            game=self.game.name,
            num_info_states=len(self.policy.states),
            num_parameters=len(self.policy.flat),
            episodes=self.played.num_batches * self.plan.batch_size,
            batches=self.played.num_batches,
            turns=len(self.played.batch),
            returns=tuple(self.values.returns.tolist()),
            gradient_norm=float(np.linalg.norm(self.exact)),
            check=figures(plain, plain).bias_unpaired,
            rows=tuple(self.row(name) for name in estimators),
        )

    def row(self, name: str) -> LabRow:
        """Measure one estimator by name; whatever it refuses is in the row."""
        try:
            return self.measure(name, bind_estimator(name))
        except SparringError as error:
            return LabRow(estimator=name, refused=str(error))

    def measure(self, name: str, estimator: Estimator) -> LabRow:
        """Measure any function with an estimator's signature.

        Raises:
            CreditError: it cannot work on the table, or its advantages are not finite.
        """
        advantages = self.advantages(name, estimator)[self.first :]
        gradients = self.layout.gradients(advantages)
        known = np.abs(self.played.advantage) > SIGN_TOLERANCE
        judged = known & (advantages != 0)
        square = float(advantages @ advantages)
        return LabRow(
            estimator=name,
            gradient=self._figures(gradients, None),
            seats={
                role: self._figures(gradients, seat)
                for seat, role in enumerate(self.game.roles)
                if self._has_gradient(seat)
            },
            right_sign=float(
                np.mean(np.sign(advantages[judged]) == np.sign(self.played.advantage[judged]))
            )
            if judged.any()
            else np.nan,
            zeros=float(np.mean(advantages == 0)),
            effective=float(np.abs(advantages).sum() ** 2 / square / len(advantages))
            if square
            else 0.0,
            seconds=self.seconds(estimator) if self.plan.timed else None,
        )

    def advantages(self, name: str, estimator: Estimator) -> FloatArray:
        """Return the advantage of every turn, burn-in included.

        There is one call per batch, with the state carried on.
        """
        state: Mapping[str, Any] = {}
        found = []
        for table in self.tables_for(estimator):
            credit = estimator(table, state)
            state = credit.state
            found.append(per_turn(credit, table))
        advantages = np.concatenate(found)
        wrong = np.flatnonzero(~np.isfinite(advantages))
        if len(wrong):
            raise CreditError(
                f"credit {name!r} gave the advantage {advantages[wrong[0]]} in turn {wrong[0]} of "
                "the lab's episodes."
            )
        return advantages

    def tables_for(self, estimator: Estimator) -> list[TurnTable]:
        """Return the table of each batch with what an estimator reads."""
        found = self.shown_to(estimator)
        return self.tables if found is self.shown else found.tables()

    def shown_to(self, estimator: Estimator) -> LabEpisodes:
        """Return all episodes with what an estimator reads."""
        found = self.continued if plays_on(estimator) else self.shown
        if isinstance(estimator, Bound) and estimator.plugin.critic == "contribution":
            found = found.with_contributions()
        judged = judgements_of(estimator, found)
        return found.judged(judged) if judged else found

    @cached_property
    def continued(self) -> LabEpisodes:
        """All episodes with values by playing on."""
        return continued(
            self.shown,
            self.episodes,
            self.game,
            self.policy,
            count=self.plan.playouts,
            stream=Stream.from_seed(self.plan.seed).child("credit lab").child("playouts"),
        )

    def _figures(self, gradients: FloatArray, seat: int | None) -> GradientFigures:
        """Return the figures of batch gradients [S], in all parameters or in those of one seat."""
        layout, exact, controls = self.layout, self.exact, self.controls
        if seat is not None:
            own = self.policy.seats == seat
            kept = own[layout.parameter]
            exact, gradients, controls = exact * own, gradients * kept, controls * kept
        plain = Products.of(layout, gradients, exact)
        return figures(
            plain, paired_products(layout, gradients, exact, controls, self.expectations)
        )

    def _has_gradient(self, seat: int) -> bool:
        """Return whether the seat's own part of the exact gradient is not 0."""
        return bool(np.linalg.norm(self.exact[self.policy.seats == seat]) > 1e-12)

    def seconds(self, estimator: Estimator) -> float:
        """Return the processor time of one call in seconds, per 100,000 turns.

        The played turns are repeated or cut to about 100,000.
        """
        end = int(
            np.searchsorted(
                self.played.batch,
                self.played.batch[min(TIMED_ROWS, len(self.played.batch)) - 1],
                side="right",
            )
        )
        turns = _without(self.shown_to(estimator), self.plan.skipped).turns
        table = tiled(cut(turns, 0, end), TIMED_ROWS)
        begin = time.process_time()
        estimator(table, {})
        return (time.process_time() - begin) * TIMED_ROWS / len(table.reward)


def plays_on(estimator: Estimator) -> bool:
    """Return whether an estimator reads values by playing on."""
    return isinstance(estimator, Bound) and "playout" in estimator.plugin.needs


def judgements_of(estimator: Estimator, played: LabEpisodes) -> list[str]:
    """Return the judgements that an estimator's options name as components of the reward."""
    options = estimator.at(0.0).values() if isinstance(estimator, Bound) else ()
    return sorted(name for name in played.judgements if name in options)


def per_turn(credit: Credit, turns: TurnTable) -> FloatArray:
    """Return the advantage of every turn, [N].

    That of a token-level estimator is the mean over the turn's tokens, 0 without any.
    """
    if credit.level == "turn":
        return credit.advantages
    turn = np.repeat(np.arange(len(turns.n_tokens)), turns.n_tokens)
    sums = np.bincount(turn, weights=credit.advantages, minlength=len(turns.n_tokens))
    return sums / np.maximum(turns.n_tokens, 1)


def _without(played: LabEpisodes, batches: int) -> LabEpisodes:
    """Return the episodes without their first batches."""
    begin = int(np.searchsorted(played.batch, batches))
    return replace(
        played,
        turns=cut(played.turns, begin, len(played.batch)),
        batch=played.batch[begin:] - batches,
        num_batches=played.num_batches - batches,
        state=played.state[begin:],
        choice=played.choice[begin:],
        advantage=played.advantage[begin:],
        contribution=played.contribution[begin:],
        judgements={name: column[begin:] for name, column in played.judgements.items()},
    )
