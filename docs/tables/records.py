"""The columns of docs/records.md, from the schemas; what is not described here fails."""

from functools import partial
from pathlib import Path

from measured import markdown

from sparring.play import store

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    "step": "step of the run, from 1",
    "episode_id": "number of the play; unique in a run",
    "seat": "position, from 0",
    "turn_index": "turns that this seat has had in this play before, in this conversation or another",
}
EPISODES = KEYS | {
    "group_id": "plays of one group share their initial state",
    "game": "the environment's label, as in metrics",
    "seed": "key of the stream that the initial state was drawn from; equal within a group",
    "role": "what the position is called",
    "agent": "player in the seat: learner, a snapshot, a bot, an endpoint",
    "trained": "whether the seat's tokens may carry loss",
    "moment": "number of the decision in the play, from 0; equal for turns taken at once",
    "attempt": "attempt of a trial, from 0; a note between two attempts belongs to the one before it",
    "note": "whether the turn is a note that the seat wrote between two attempts, and no decision",
    "state_group": "number of a prompt with several replies in its play: equal for these; null where there was one",
    "candidate": "number of the reply among those to its prompt, from 0",
    "committed": "whether the reply was played",
    "score": "what the reply was judged by among those to its prompt; null where nothing judged it",
    "told": "text of this turn for the seat: what it had not been told yet; not sent where its conversation had outgrown the model",
    "state_key": "information state: equal exactly when the seat cannot tell two states apart",
    "view": "what the seat can see of the position now",
    "legal_actions": "the legal actions, as words",
    "reply": "what the player said, as text",
    "action": "what was played; null where nothing was",
    "event": "ok, illegal (well formed, but not legal), unparsable, memory (the seat was asked to write its memory, and the play did not move), or unsent (its conversation had outgrown the model's context, so that the model was not asked and the play was truncated)",
    "reward_names": "names of the turn's reward components: `game` is the environment's own payoff, `illegal` a fine",
    "reward_values": "their values, in the same order, as credit saw them: weighted, scaled, bounded",
    "seat_return": "the seat's return: the sum of the environment's payoffs",
    "segment_kinds": "runs of tokens of this turn: prompt, context, sampled, boundary",
    "segment_lengths": "tokens of each run",
    "run_versions": "updates of the weights that each sampled run was drawn with; empty in files of before",
    "ids": "token ids of all runs, one after the other",
    "logprobs": "log-probability of each sampled token, by the sampler, nats",
    "kept": "per sampled token the ids that top-p and top-k left; empty where nothing was cut",
    "truncated": "whether the reply ran into the limit of tokens",
    "weights_version": "updates that the sampling weights had had",
    "conversation": "number of the seat's conversation in this play; it grows where a new one begins or history is edited",
    "oracle_values": "the oracle's value of each legal action, for the seat; null without a verdict",
    "oracle_best": "whether each legal action is among the oracle's best",
    "oracle_certainty": "the oracle's certainty, 0 to 1",
    "oracle_bound": "how far a value may be from the truth",
    "oracle_entropy": "entropy of what is hidden from the seat, nats",
    "playout": "mean return of plays continued from after this turn; null where none were",
    "playout_before": "the same from before it; null where the estimator does not read it",
    "forfeited_by": "seat that ended the play by a reply that was not legal",
    "returns": "return of every seat",
    "roles": "role of every seat",
    "agents": "player of every seat, by name",
    "players": "player of every seat, as a record: kind (learner, snapshot, bot ...), name, and the step of a snapshot",
    "trained_seats": "`trained` of every seat",
    "cut": "whether the play was truncated: by `rollout.max_turns`, or by the model's context (its last moment has an `unsent` turn)",
    "environment": "JSON of the environment: name, options, rule for illegal replies, label, version",
}
CREDIT = KEYS | {
    "candidate": "number of the reply among those to its prompt, from 0",
    "selected": "whether the reply was trained on; false where selection dropped the play, refills gave more than a step wants, or the reply was not played and the estimator follows what was: then all from `advantage` on is null; false too where the estimator leaves the turn out of the loss (`Credit.trained`)",
    "replayed": "whether the play came from the replay buffer, and was played in an earlier step",
    "reward": "sum of the turn's components, as credit saw it",
    "advantage": "the turn's advantage; the mean over its tokens where credit is per token",
    "token_advantages": "advantage of each sampled token, where credit is per token; else null",
    "baseline": "what the estimator subtracted, where it says so (gae, grpo, mars, rae, rloo)",
    "value": "the critic's value before the turn; null where the estimator reads it elsewhere (after turns, or at tokens)",
    "value_target": "what the critic was fitted to, where it reads it; null where that is at tokens",
    "entropies": "entropy of the distribution of each sampled token, by the weights that were updated next, nats",
}


def columns(schema, descriptions):
    """Return the columns of a schema as a table."""
    kinds = {"struct<kind: string, name: string, step: int64>": "player", "list<element: ": "list of ", "list<item: ": "list of ", ">": "", "string": "text", "bool": "true or false", "double": "float64"}
    rows = []
    for field in schema:
        kind = str(getattr(field.type, "value_type", field.type) if "dictionary" in str(field.type) else field.type)
        for old, new in kinds.items():
            kind = kind.replace(old, new)
        rows.append((f"`{field.name}`", kind, descriptions[field.name]))
    return markdown(("column", "type", "what"), rows)


def example():
    """Return the example as a block of code."""
    text = (ROOT / "examples" / "read_episodes.py").read_text(encoding="utf-8")
    return f"```python\n{text.rstrip()}\n```"


MADE = {
    "columns of episodes": partial(columns, store.SCHEMA, EPISODES),
    "columns of credit": partial(columns, store.CREDIT_SCHEMA, CREDIT),
    "reading episodes": example,
}
