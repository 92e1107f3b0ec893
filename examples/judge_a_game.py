"""Judge a random game of tic-tac-toe with an exact oracle, and print the regret of each move."""

from sparring.config.plugins import registry
from sparring.core.rng import Stream
from sparring.environments.catalogue import make_game
from sparring.methods.oracles.judge import judge_episodes, regret
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

game, root = make_game("tic_tac_toe"), Stream.from_seed(1)
spec = EpisodeSpec(
    game=game,
    episode_id=0,
    group_id=0,
    deal=root.child("deal"),
    stream=root.child("play"),
    seats=("random", "random"),
    trained=(True, True),
)
episodes = play([spec], {"random": registry.bind("players", "random")()})
# other games need another oracle; `sparring list oracles` prints all
oracle = registry.bind("oracles", "minimax")()
(episode,) = judge_episodes(episodes, {game.name: game}, {game.name: oracle})
for turn in episode.turns:
    best = " ".join(sorted(turn.verdict.best))
    print(f"{episode.roles[turn.seat]} {turn.action}: regret {regret(turn):.0f}, best: {best}")
print("returns:", dict(zip(episode.roles, episode.returns, strict=True)))
