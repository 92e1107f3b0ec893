"""Read what a run stored: with pandas, with DuckDB, and turn by turn."""

import duckdb

import sparring

changes = ("steps=10", "rollout.games_per_step=128", "store.every=5")
run = sparring.train("kuhn-tiny", *changes, run="runs/read-episodes", overwrite=True)

keys = ["step", "episode_id", "seat", "turn_index", "candidate"]
turns = run.table("episodes").to_pandas().merge(run.table("credit").to_pandas(), on=keys)
print(turns.groupby(["step", "role"])[["seat_return", "advantage"]].mean().round(3))

print(
    duckdb.sql(f"""
        SELECT told, reply, count(*) AS times, round(avg(advantage), 3) AS advantage,
               round(avg(entropies[1]), 2) AS entropy
        FROM '{run.path}/episodes/*.parquet'
        JOIN '{run.path}/credit/*.parquet' USING ({", ".join(keys)})
        WHERE step = 10 AND event = 'ok' GROUP BY ALL ORDER BY times DESC LIMIT 5
    """)
)

step, episode = run.episodes()[-1]
game = sparring.make_environment(episode.environment)
print(
    f"The last play of step {step}, of {game.name} with {game.num_seats} seats, "
    f"returned {episode.returns}:"
)
for turn in episode.turns:
    print(
        f"  {episode.roles[turn.seat]}: prompt {turn.prompt!r}, reply {turn.reply!r}, legal "
        f"actions {', '.join(turn.legal_actions)}."
    )
