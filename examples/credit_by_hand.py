"""Use the estimators on your own episodes: play random Kuhn poker and compare the advantages of
the same turns.
"""

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec
from sparring.play.turn_table import ordered_turns, turn_table

game, root = make_game("kuhn_poker"), Stream.from_seed(0)
specs = [
    EpisodeSpec(
        game=game,
        episode_id=number,
        group_id=number // 4,  # four games share each deal
        deal=root.child("deal").child(number // 4),
        stream=root.child("play").child(number),
        seats=("random", "random"),
        trained=(True, True),
    )
    for number in range(64)
]
episodes = play(specs, {"random": registry.bind("players", "random")()})
turns = turn_table(episodes)
credits = {
    name: registry.bind("credit", name)(turns, {}).advantages
    for name in ("outcome", "mars", "rloo", "rae")
}
for row, (episode, turn) in list(enumerate(ordered_turns(episodes)))[:8]:
    values = "  ".join(f"{name} {advantages[row]:+.2f}" for name, advantages in credits.items())
    print(f"game {episode.episode_id} {episode.roles[turn.seat]:>6} {turn.action:>4}:  {values}")
