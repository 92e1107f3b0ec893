"""An environment in one file: both seats name a side of a coin at once; left wins if they match."""

from sparring.core.records import Observation

SLOT = "environments"  # this module is an environment; its name in a recipe is matching.matching
SIDES = ("heads", "tails")


def matching():
    """Matching pennies."""
    return Matching()


class Matching:
    roles, max_turns = ("left", "right"), 2
    min_utility, max_utility, zero_sum, brief = -1.0, 1.0, True, True

    def vocabulary(self):  # all words of prompts and replies, for a tiny model without pretraining
        return ("name", *SIDES)

    def reset(self, stream):  # random draws, if any, come from the stream
        return Play()


class Play:
    done, returns = False, (0.0, 0.0)

    def due(self):
        return () if self.done else (0, 1)

    def legal(self, seat):  # None would allow any text
        return SIDES

    def observe(self, seat):
        return Observation(prompt="name", key=str(seat))

    def step(self, replies):
        left_return = 1.0 if replies[0] == replies[1] else -1.0
        self.done, self.returns = True, (left_return, -left_return)
