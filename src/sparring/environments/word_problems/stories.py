"""Stories about how many things somebody has, told so that a number answers them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sparring.core.rng import Stream

PEOPLE = ("ada", "ben", "cleo", "dan", "eva", "finn", "gus", "hana", "ivo", "jane", "kai", "lena")
THINGS = ("apples", "books", "cards", "coins", "cups", "eggs", "keys", "pens", "rings", "stamps")
HAS, BAGS, MORE = "has", "bags", "more"
GETS, LOSES, DOUBLES = "gets", "loses", "doubles"
WORDS = ("has", "bags", "of", "more", "than", "gets", "loses", "doubles", "how", "many")
_FULL = {
    HAS: "{who} has {a} {ones}.",
    BAGS: "{who} has {a} bags with {b} {things} in each bag.",
    MORE: "{other} has {a} {ones}. {who} has {b} more {things} than {other}.",
}
_BRIEF = {
    HAS: "{who} has {a} {things}",
    BAGS: "{who} has {a} bags of {b} {things}",
    MORE: "{other} has {a} {things} {who} has {b} more than {other}",
}
_THEN = {  # the ways in which each is told, of which a story draws one; "2 more" could be bags
    GETS: (
        "{who} buys {a} more {ones}.",
        "{who} finds {a} more {ones}.",
        "A friend gives {who} {a} more {ones}.",
    ),
    LOSES: ("{who} loses {a} {ones}.", "{who} gives away {a} {ones}.", "{who} sells {a} {ones}."),
    DOUBLES: ("Then {who} doubles the number of {things}.",),
}


@dataclass(frozen=True, slots=True)
class Story:
    """A story.

    Args:
        who: whom it is about.
        other: somebody else.
        things: what is counted.
        opening: HAS, BAGS or MORE.
        numbers: of the opening, two; the second is 0 where it is not told.
        events: what happens then: GETS, LOSES or DOUBLES, a number, and the way it is told.
    """

    who: str
    other: str
    things: str
    opening: str
    numbers: tuple[int, int]
    events: tuple[tuple[str, int, int], ...]

    @property
    def answer(self) -> int:
        """How many things there are in the end."""
        one, two = self.numbers
        count = {HAS: one, BAGS: one * two, MORE: one + two}[self.opening]
        for kind, number, _ in self.events:
            count = {GETS: count + number, LOSES: count - number, DOUBLES: 2 * count}[kind]
        return count

    def told(self, brief: bool) -> str:
        """Return the story and its question."""
        names = {"who": self.who, "other": self.other, "things": self.things}
        if not brief:
            names |= {"who": self.who.capitalize(), "other": self.other.capitalize()}
        one, two = self.numbers
        ones = self.things if one != 1 else self.things[:-1]
        opening = (_BRIEF if brief else _FULL)[self.opening]
        parts = [opening.format(**names, a=one, b=two, ones=ones)]
        for kind, number, way in self.events:
            if brief:
                parts.append(kind if kind == DOUBLES else f"{kind} {number}")
            else:
                ones = self.things if number != 1 else self.things[:-1]
                parts.append(_THEN[kind][way].format(**names, a=number, ones=ones))
        if brief:
            return f"{' '.join(parts)} how many"
        return f"{' '.join(parts)} How many {self.things} does {names['who']} have now?"


@lru_cache(maxsize=4096)
def story(stream: Stream, steps: int, largest: int) -> Story:
    """Return the story of a stream.

    Args:
        stream: what it is drawn from.
        steps: operations that the answer takes, at least 1.
        largest: number that is told, at least 2; nobody ever has less than none.
    """
    names = stream.child("names")
    first = names.integer(0, len(PEOPLE))
    second = (first + 1 + names.integer(1, len(PEOPLE) - 1)) % len(PEOPLE)
    drawn = stream.child("numbers")
    opening = (HAS, BAGS, MORE)[stream.child("opening").integer(0, 3)]
    one = 1 + drawn.integer(0, largest) if opening != BAGS else 2 + drawn.integer(0, largest - 1)
    two = 0 if opening == HAS else 2 + drawn.integer(1, largest - 1)
    count = {HAS: one, BAGS: one * two, MORE: one + two}[opening]
    events: list[tuple[str, int, int]] = []
    for place in range(steps - (opening != HAS)):
        kinds = (GETS, GETS, LOSES, LOSES, DOUBLES) if count else (GETS,)
        own = stream.child("events").child(place)
        kind = kinds[own.integer(0, len(kinds))]
        most = {GETS: largest, LOSES: min(largest, count), DOUBLES: 1}[kind]
        number = 0 if kind == DOUBLES else 1 + own.integer(1, most)
        events.append((kind, number, own.integer(2, len(_THEN[kind]))))
        count = {GETS: count + number, LOSES: count - number, DOUBLES: 2 * count}[kind]
    return Story(
        who=PEOPLE[first],
        other=PEOPLE[second],
        things=THINGS[names.integer(2, len(THINGS))],
        opening=opening,
        numbers=(one, two),
        events=tuple(events),
    )


def most(steps: int, largest: int) -> int:
    """Return a number that no answer is above: the opening's largest, then doubled or added to."""
    count = largest * largest if steps else largest
    for _ in range(max(steps - 1, 0)):
        count = max(2 * count, count + largest)
    return max(count, 2 * largest)
