"""Train a tiny language model on Kuhn poker, measure it exactly, and let it play: seconds."""

import sparring

run = sparring.train(
    "kuhn-tiny", "steps=40", "rollout.games_per_step=256", run="runs/first-run", overwrite=True
)
result = sparring.evaluate(run, games_per_seat=100)
print(
    f"NashConv after {run.step} steps: {result['figures']['nash_conv/kuhn_poker']:.3f}; uniform "
    "play has 0.917."
)
for match in result["matches"]:
    print(f"{match['role']} against {match['opponent']}: mean return {match['return']}")
(episode,) = sparring.play_episodes("kuhn_poker", [run, "random"], seed=1)
print(
    "A play:",
    ", ".join(f"{episode.roles[turn.seat]} says {turn.reply!r}" for turn in episode.turns),
    episode.returns,
)
