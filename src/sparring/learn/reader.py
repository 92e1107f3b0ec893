"""What a model says of a pack: values, log-probabilities of sampled tokens, features of their
distributions.

Every distinct sequence runs through the network once. Legend: as in ``pack.py`` and ``slices.py``;
C width, V vocabulary.

Where the critic reads a conversation: before a turn, after it, or before each of its sampled
tokens.

It is fitted where the estimator reads it. Legend: as in ``pack.py``; K values asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from sparring.config.plugins.registry import load
from sparring.core.records import FloatArray, IntArray
from sparring.learn.pack import Pack
from sparring.learn.slices import PADDED, Slice, at_samples, chunks, slices
from sparring.methods.columns.base import Place
from sparring.models.language_model import LanguageModel
from sparring.models.prefixes import prefix_tree
from sparring.models.samplers.draws import restrict


def fitted_at(needs: Collection[str]) -> Place:
    """Return where an estimator with these NEEDS wants the critic fitted.

    "value" is before a turn, whatever else is needed; then "token_value" before each token;
    "value_after" alone after a turn.
    """
    if "value" in needs:
        return "before"
    if "token_value" in needs:
        return "token"
    return "after" if "value_after" in needs else "before"


def read_at(data: Pack, place: Place, which: IntArray) -> tuple[IntArray, IntArray]:
    """Return the distinct sequence and the position [K] that the critic reads.

    Args:
        data: the pack.
        place: "before" is the last token the seat was given, "after" the last one of its reply,
            "token" the one before each token.
        which: turns [K], rows of the turn table; for "token" sampled tokens [K], indices into the
            pack.
    """
    if place == "token":
        return data.ask[data.turn_of[which], 0], data.position_of[which] - 1
    sequence, position = data.ask[which, 0], data.ask[which, 1]
    if place == "before":
        return sequence, position
    begin, end = (np.searchsorted(data.turn_of, which, side=side) for side in ("left", "right"))
    said = end > begin  # else the reply is empty, and nothing came after what was asked
    position = position.copy()
    position[said] = data.position_of[end[said] - 1]
    return sequence, position


def num_values(data: Pack, place: Place, tokens: IntArray) -> int:
    """Return how many values are fitted where these sampled tokens are trained."""
    return len(tokens) if place == "token" else len(np.unique(data.turn_of[tokens]))


class Reader:
    """Reads packs with a model.

    Args:
        model: the model.
        temperature: divides the logits, as it did when the tokens were sampled.
        micro_tokens: distinct prefixes per forward pass.
        features: plug-ins of the slot ``features`` that are read along.
        reference: the policy before the first step, if it is to be read too.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        temperature: float,
        micro_tokens: int,
        features: Sequence[str] = (),
        reference: LanguageModel | None = None,
    ) -> None:
        self.model, self.temperature, self.micro_tokens = model, temperature, micro_tokens
        self.features, self.reference = tuple(features), reference

    @property
    def _padded(self) -> int:
        """Padded positions per distinct prefix that a forward pass may have."""
        return PADDED if self.model.forward.shares_prefixes else 1

    @torch.no_grad()
    def turn_values(self, data: Pack, *, at: Place = "before") -> FloatArray:
        """Return the value head's estimates: [N] before each turn or after it, or [M] before each
        sampled token; see ``critic.py``.
        """
        sequence, position = read_at(
            data, at, np.arange(len(data.turn_of if at == "token" else data.ask))
        )
        values = np.zeros(len(sequence))
        for rows in chunks(
            data, np.arange(len(data.sequences)), self.micro_tokens, padded=self._padded
        ):
            tree = prefix_tree([data.sequences[row] for row in rows])
            place = {row: index for index, row in enumerate(rows.tolist())}
            own = np.flatnonzero(np.isin(sequence, rows))
            row = torch.tensor(
                [place[index] for index in sequence[own].tolist()], dtype=torch.int64
            )
            asked = tree.node[row, torch.from_numpy(position[own])].to(self.model.device)
            values[own] = (
                self.model.values(self.model.hidden(tree.to(self.model.device))[asked])
                .double()
                .cpu()
                .numpy()
            )
        return values

    def _parts(self, data: Pack, chosen: IntArray) -> Iterator[Slice]:
        """Yield the chosen sequences in forward passes, where the model is."""
        for part in slices(data, chosen, self.micro_tokens, padded=self._padded):
            yield part.to(self.model.device)

    def turn_logprobs(self, data: Pack, *, of_reference: bool = False) -> FloatArray:
        """Return the sum of the log-probabilities of each turn's sampled tokens, now or by the
        reference policy, [N].
        """
        model = self.reference if of_reference else self.model
        assert model is not None, "made without a reference"
        return np.bincount(
            data.turn_of, weights=self._logprobs(data, model), minlength=len(data.ask)
        ).astype(np.float64)

    def logprobs(self, data: Pack) -> FloatArray:
        """Return the log-probabilities of all sampled tokens, now, [M]."""
        return self._logprobs(data, self.model)

    @torch.no_grad()
    def _logprobs(self, data: Pack, model: LanguageModel) -> FloatArray:
        """Return a model's log-probabilities of all sampled tokens, [M]."""
        logprobs = np.empty(len(data.turn_of))
        for part in self._parts(data, data.spoken):
            logprobs[part.tokens] = (
                self._forward(model, part)[0][part.spread].double().cpu().numpy()
            )
        return logprobs

    @torch.no_grad()
    def entropies(self, data: Pack) -> FloatArray:
        """Return the entropy of the distribution that each sampled token was drawn from, after
        temperature and truncation, [M], nats.
        """
        found = np.empty(len(data.turn_of))
        for part in self._parts(data, data.spoken):
            extra = self._forward(self.model, part, ("entropy",))[1]
            found[part.tokens] = extra["entropy"][part.spread].double().cpu().numpy()
        return found

    def _forward(
        self, model: LanguageModel, part: Slice, features: Sequence[str] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return log-probabilities [K] of the sampled tokens, and features [K] of them or of the
        distributions they came from.
        """
        chosen = self.features if features is None else features
        return model.computing(lambda: self._read(model, part, chosen))

    def _read(
        self, model: LanguageModel, part: Slice, features: Sequence[str]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Do what ``_forward`` does, with weights that are whole."""
        hidden = model.hidden(part.tree)
        logits, place = (
            model.logits(hidden.index_select(0, part.asked)).float() / self.temperature,
            part.place,
        )
        every = logits.log_softmax(-1)
        legal = part.legal.divergences(every, place)
        if part.kept:
            logits, place = (
                restrict(logits[place], part.kept),
                torch.arange(len(place), device=place.device),
            )
            every = logits.log_softmax(-1)
        logprobs = at_samples(every, place, part.target)
        extra = {
            name: at_samples(load("features", name).function(logits), place, part.target)
            for name in features
        }
        return logprobs, {**extra, **legal, "hidden": hidden}
