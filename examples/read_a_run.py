"""Look into a run: its curves, a stored play turn by turn, and the tokens of a reply."""

import sparring

changes = ("steps=10", "rollout.games_per_step=128", "store.every=5")
run = sparring.load_run(
    sparring.train("kuhn-tiny", *changes, run="runs/read-a-run", overwrite=True).path
)
curve = [(line["step"], round(line["legal_rate"], 3)) for line in run.metrics()]
print("legal replies by step:", curve[::3])
step, episode = run.episodes()[-1]
print(f"A play of step {step}, returns {episode.returns}:")
for turn in episode.turns:
    sampled = [segment for segment in turn.segments if segment.kind == "sampled"]
    tokens = [
        (token, round(logprob, 2))
        for segment in sampled
        for token, logprob in zip(segment.ids, segment.logprobs, strict=True)
    ]
    print(
        f"  {episode.roles[turn.seat]}: {turn.reply!r} ({turn.event}), tokens and "
        f"log-probabilities {tokens}"
    )
