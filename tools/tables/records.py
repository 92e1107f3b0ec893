"""The columns of docs/records.md, from the schemas; what is not described here fails."""

from functools import partial
from pathlib import Path

from measured import markdown

from sparring.play import store

ROOT = Path(__file__).resolve().parents[2]
KEYS = {
    "step": "step of the run, from 1",
    "episode_id": "number of the episode; unique in a run",
    "seat": "number of the seat, from 0",
    "turn_index": "number of earlier turns of this seat in this episode, in this conversation or another",
}
EPISODES = KEYS | {
    "group_id": "episodes of one group share their initial state",
    "game": "the environment's label, as in metrics",
    "seed": "key of the stream that the initial state was drawn from; equal within a group",
    "role": "name of the seat's role",
    "agent": "player in the seat: learner, a snapshot, a bot, an endpoint",
    "trained": "whether the seat's tokens may have a loss",
    "moment": "number of the decision in the episode, from 0; equal for simultaneous turns",
    "attempt": "attempt of a trial, from 0; a note between two attempts belongs to the one before it",
    "note": "whether the turn is a note that the seat wrote between two attempts, not a decision",
    "state_group": "number of a prompt with several replies in its episode, equal for these; null if there was one reply",
    "candidate": "number of the reply among those to its prompt, from 0",
    "committed": "whether the reply was played",
    "score": "score of the reply among those to its prompt; null if nothing judged it",
    "told": "prompt text of this turn, without what the seat already knows; not sent if its conversation had outgrown the model's context",
    "state_key": "information state: equal exactly when the seat cannot tell two states apart",
    "view": "what the seat can see of the state now",
    "legal_actions": "the legal actions, as words",
    "reply": "the player's reply, as text",
    "action": "the action that was played; null if there was none",
    "event": "ok, illegal (well formed, but not legal), unparsable, memory (the seat wrote its memory, and the state did not change), or unsent (its conversation had outgrown the model's context, so the model was not called and the episode was truncated)",
    "reward_names": "names of the turn's reward components: `game` is the environment's own payoff, `illegal` a penalty",
    "reward_values": "their values, in the same order, as credit saw them: weighted, scaled, bounded",
    "seat_return": "the seat's return: the sum of the environment's payoffs",
    "segment_kinds": "runs of tokens of this turn: prompt, context, sampled, boundary",
    "segment_lengths": "tokens of each run",
    "run_versions": "version of the weights of each sampled run, in updates; empty in older files",
    "ids": "token ids of all runs, one after the other",
    "logprobs": "log-probability of each sampled token, by the sampler, nats",
    "kept": "per sampled token the ids that top-p and top-k kept; empty without truncation",
    "truncated": "whether the reply reached the token limit",
    "weights_version": "version of the sampling weights, in updates",
    "conversation": "number of the seat's conversation in this episode; it grows when a new one begins or history is edited",
    "oracle_values": "the oracle's value of each legal action, for the seat; null without a verdict",
    "oracle_best": "whether each legal action is among the oracle's best",
    "oracle_certainty": "the oracle's certainty, 0 to 1",
    "oracle_bound": "largest possible error of a value",
    "oracle_entropy": "entropy of what is hidden from the seat, nats",
    "playout": "mean return of Monte Carlo rollouts from after this turn; null without rollouts",
    "playout_before": "the same from before it; null if the estimator does not read it",
    "forfeited_by": "seat that ended the episode by an illegal reply",
    "returns": "return of every seat",
    "roles": "role of every seat",
    "agents": "player of every seat, by name",
    "players": "player of every seat, as a record: kind (learner, snapshot, bot ...), name, and the step of a snapshot",
    "trained_seats": "`trained` of every seat",
    "cut": "whether the episode was truncated: by `rollout.max_turns`, or by the model's context (its last moment has an `unsent` turn)",
    "environment": "JSON of the environment: name, options, rule for illegal replies, label, version",
}
CREDIT = KEYS | {
    "candidate": "number of the reply among those to its prompt, from 0",
    "selected": "whether the reply was trained on. It is false if selection dropped the episode, if refills gave more than a step needs, or if the estimator uses only played replies and this one was not played; all columns from `advantage` on are then null. It is also false if the estimator excludes the turn from the loss (`Credit.trained`)",
    "replayed": "whether the episode came from the replay buffer, from an earlier step",
    "reward": "sum of the turn's components, as credit saw it",
    "advantage": "the turn's advantage; the mean over its tokens if credit is per token",
    "token_advantages": "advantage of each sampled token, if credit is per token; else null",
    "baseline": "the baseline that the estimator subtracted, if it reports one (gae, grpo, mars, rae, rloo)",
    "value": "the critic's value before the turn; null if the estimator reads it elsewhere (after turns, or at tokens)",
    "value_target": "target of the critic at this turn; null if the critic is read at tokens",
    "entropies": "entropy of the distribution of each sampled token, by the weights before the next update, nats",
}


def columns(schema, descriptions):
    """Return the columns of a schema as a table."""
    kinds = {
        "struct<kind: string, name: string, step: int64>": "player",
        "list<element: ": "list of ",
        "list<item: ": "list of ",
        ">": "",
        "string": "text",
        "bool": "true or false",
        "double": "float64",
    }
    rows = []
    for field in schema:
        kind = str(
            getattr(field.type, "value_type", field.type)
            if "dictionary" in str(field.type)
            else field.type
        )
        for old, new in kinds.items():
            kind = kind.replace(old, new)
        rows.append((f"`{field.name}`", kind, descriptions[field.name]))
    return markdown(("column", "type", "what"), rows)


def example():
    """Return the example as a block of code."""
    text = (ROOT / "examples" / "read_episodes.py").read_text(encoding="utf-8")
    return f"```python\n{text.rstrip()}\n```"


MARKERS = {
    "columns of episodes": partial(columns, store.SCHEMA, EPISODES),
    "columns of credit": partial(columns, store.CREDIT_SCHEMA, CREDIT),
    "reading episodes": example,
}
