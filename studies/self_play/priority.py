"""OpenAI Five's opponents: mostly the newest policy, otherwise past policies by quality.

The share of 80 % is published. The update of quality was written from memory of the paper (Berner
et al., 2019, arXiv 1912.06680, appendix), and was not compared with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparring.core.records import FloatArray
from sparring.league.meta_game import MetaStrategy
from sparring.ops.normal_form import softmax
from studies.self_play.frame import Run
from studies.self_play.worlds import P


class Priority(Run[P]):
    """Past policies are drawn by the softmax of their quality, which falls when they lose.

        p_i = softmax(q)_i,    q_i <- q_i - pace * (share of plays that i loses) / (N p_i)

    for each of N past policies; policy i plays a share of the round's episodes. A new policy begins
    with the largest quality.

    Options of the recipe: ``pace``.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.quality: FloatArray = np.zeros(1)

    def train(self) -> None:
        """Run a round; then lower the quality of the policies that lost."""
        count = len(self.quality)
        super().train()
        lost = np.array([self._loses(index) for index in range(count)])
        self.quality -= self.recipe.options["pace"] * lost / count
        self.quality = np.append(self.quality, self.quality.max())

    def strategy(self) -> MetaStrategy:
        """Return the softmax of qualities, for every side."""
        return MetaStrategy(sides=(softmax(self.quality),) * self.world.sides)

    def _loses(self, number: int) -> float:
        """Return the learner's win rate against a past policy."""
        policies = [members[number] for members in self.members]
        return self.wins(self.live, policies)
