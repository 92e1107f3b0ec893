"""An environment of free text in one file: one seat answers sums, and any text is a reply."""

from sparring.core.records import Observation

SLOT = "environments"  # this module is an environment; its name in a recipe is sums.sums


class sums:
    """Three sums in a row; the return is the share of right answers."""

    roles, max_turns = ("pupil",), 3
    min_utility, max_utility, zero_sum = 0.0, 1.0, False

    def vocabulary(self):  # for the tiny model alone; a pretrained model has its own
        return ("plus", *map(str, range(19)))

    def reset(self, stream):
        return Play([(stream.integer(2 * n, 10), stream.integer(2 * n + 1, 10)) for n in range(3)])


class Play:
    def __init__(self, pairs):
        self.pairs, self.turn, self.num_right = pairs, 0, 0

    @property
    def done(self):
        return self.turn == len(self.pairs)

    @property
    def returns(self):  # one number per seat
        return (self.num_right / len(self.pairs),)

    def due(self):
        return () if self.done else (0,)

    def legal(self, seat):  # any text is legal
        return None

    def read(self, seat, reply, exact):  # None: the reply is not a number, and counts as illegal
        number = reply.strip()
        return number if number.isascii() and number.isdigit() and len(number) < 4 else None

    def sample(self, seat, stream):  # for the warm-up and for random play
        return str(stream.integer(self.turn, 19))

    def observe(self, seat):
        first, second = self.pairs[self.turn]
        return Observation(prompt=f"{first} plus {second}", key=f"{self.turn} {first} {second}")

    def step(self, replies):
        self.num_right += int(replies[0]) == sum(self.pairs[self.turn])
        self.turn += 1
