"""Best play of battleship_hunt against some fleets, by looking at every belief once."""

from __future__ import annotations

Fleet = tuple[int, ...]  # each ship's cells as bits


class LongSearchError(Exception):
    """A search met more beliefs than it may."""


class Search:
    """Best play against some fleets, all equally likely, by looking at every belief once.

    A fleet may be among them twice.

    A belief is a set of fleets, as bits, with the cells shot at. Values are sums over its fleets:
    of those that are sunk in time or, with ``share``, of the cells that are still hit. All fleets
    have as many cells, so in a belief as many are left in all of them.
    """

    def __init__(self, fleets: list[Fleet], cells: int, share: bool, beliefs: int) -> None:
        self.share, self.most = share, beliefs
        self.inside: list[int] = [0] * cells  # per cell the fleets with a ship there
        # per cell the ships there, each with its fleets
        self.through: list[dict[int, int]] = [{} for _ in range(cells)]
        for number, fleet in enumerate(fleets):
            for ship in fleet:
                for cell in (cell for cell in range(cells) if ship >> cell & 1):
                    self.inside[cell] |= 1 << number
                    self.through[cell][ship] = self.through[cell].get(ship, 0) | 1 << number
        self._known: dict[tuple[int, int, int], int] = {}

    def bound(self, fleets: int, afloat: int, left: int) -> int:
        """Return what nobody can beat who knows the fleet.

        ``afloat`` cells to hit with ``left`` shots.
        """
        return fleets * min(afloat, left) if self.share else fleets * (afloat <= left)

    def shooting(self, alive: int, shot: int, afloat: int, left: int, cell: int) -> int:
        """Return what a shot, and best play after it, will get."""
        hit, after = alive & self.inside[cell], shot | 1 << cell
        sunk = 0
        for ship, fleets in self.through[cell].items():
            if not ship & ~after:
                sunk |= fleets
        total = self.value(alive & ~hit, after, afloat, left - 1)
        total += self.value(hit & sunk, after, afloat - 1, left - 1) + self.value(
            hit & ~sunk, after, afloat - 1, left - 1
        )
        return total + hit.bit_count() if self.share else total

    def value(self, alive: int, shot: int, afloat: int, left: int) -> int:
        """Return what best play will get.

        Raises:
            LongSearchError: too many beliefs were looked at.
        """
        top = self.bound(alive.bit_count(), afloat, left)
        if not top:
            return 0
        hits = [alive & fleets for fleets in self.inside]
        options = [
            (cell, hit.bit_count()) for cell, hit in enumerate(hits) if hit and not shot >> cell & 1
        ]
        if len(options) == afloat:  # there is one fleet, or they differ in which ship is which
            return top
        at = alive, shot & sum(1 << cell for cell, hit in enumerate(hits) if hit), left
        found = self._known.get(at)
        if found is None:
            if len(self._known) >= self.most:
                raise LongSearchError
            self._known[at] = 0  # counted before it is known; no belief leads back to itself
            self._known[at] = found = self._best(alive, shot, afloat, left, options)
        return found

    def _best(
        self, alive: int, shot: int, afloat: int, left: int, options: list[tuple[int, int]]
    ) -> int:
        """Return the most that a shot at one of the cells will get.

        Each cell is given with the number of fleets that it hits.
        """
        number, best = alive.bit_count(), 0
        ranked = []
        for cell, hit in options:
            most = (
                self.share * hit
                + self.bound(hit, afloat - 1, left - 1)
                + self.bound(number - hit, afloat, left - 1)
            )
            ranked.append((-most, -hit, cell))
        for most, _, cell in sorted(ranked):
            if -most <= best:
                break
            best = max(best, self.shooting(alive, shot, afloat, left, cell))
        return best
