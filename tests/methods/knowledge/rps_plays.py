"""Episodes of rock, paper, scissors, Spock, lizard with given replies."""

from sparring.core.records import Episode, Turn
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.environments.rps_spock_lizard import MOVES
from sparring.methods.knowledge.base import KnowledgeRequest

GAME, NAME = make_game("rps_spock_lizard"), "rps_spock_lizard"
STREAM = Stream.from_seed(0)


def reply(seat, word, candidate=0, candidates=(), event="ok", legal=MOVES, index=0):
    action = word if event == "ok" else None
    return Turn(
        seat,
        index,
        "learner",
        GAME.roles[seat] if seat < 2 else "",
        legal,
        word,
        action,
        event,
        {},
        candidate=candidate,
        candidates=candidates,
    )


def episode(number, *replies, game=NAME):
    """Return an episode in which each seat has these candidate replies; the first one is played."""
    turns = tuple(
        reply(
            seat,
            words[0],
            0,
            tuple(
                reply(seat, word, index, event="ok" if word in MOVES else "unparsable")
                for index, word in enumerate(words[1:], start=1)
            ),
        )
        for seat, words in enumerate(replies)
    )
    return Episode(
        episode_id=number,
        group_id=number,
        game=game,
        seed=number,
        roles=GAME.roles,
        agents=("learner",) * 2,
        trained=(True, True),
        turns=turns,
        returns=(0.0, 0.0),
    )


def request_of(*plays, step=0):
    episodes = [episode(index, *replies) for index, replies in enumerate(plays)]
    return KnowledgeRequest(episodes=episodes, environments={NAME: GAME}, step=step, stream=STREAM.child(step))


def request_in_shares(shares, plays=60, step=0, count=3):
    """Return episodes whose replies have exactly these shares of words."""
    words = [word for word, share in shares.items() for _ in range(round(share * plays * 2 * count))]
    order = STREAM.child("order").generator().permutation(len(words))
    words = [words[index] for index in order] + ["rock"] * (plays * 2 * count - len(words))
    rows = [words[index : index + count] for index in range(0, len(words), count)]
    return request_of(*zip(rows[::2], rows[1::2], strict=True), step=step)
