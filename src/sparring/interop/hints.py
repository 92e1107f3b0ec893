"""How another trainer is made to give a column that an estimator asks for, or why it cannot."""

from __future__ import annotations

from sparring.interop.rows import PREFIX

_OURS_ALONE = {
    "process_logprob": "A reward model is trained in Sparring's own runs only.",
    **dict.fromkeys(
        ("action_value", "state_value", "default_value"),
        "Exact values exist in Sparring's own small games only.",
    ),
    **dict.fromkeys(
        ("state_group", "committed", "candidate_value", "candidate_judged"),
        "Replies that are judged and not played exist in Sparring's own runs only.",
    ),
    "opponents": "Who sat in the other seats is known in Sparring's own runs only.",
    **dict.fromkeys(
        ("playout", "playout_before"), "Games are played on in Sparring's own runs only."
    ),
}
VERL = {
    "view": (
        f"Put what each turn saw into non_tensor_batch[{PREFIX + 'view'!r}] and call "
        "pass_columns()."
    ),
    "action": (
        f"Put what each turn played into non_tensor_batch[{PREFIX + 'action'!r}] and call "
        "pass_columns()."
    ),
    "value": "Set critic.enable and call pass_columns().",
    "token_value": "Set critic.enable and call pass_columns().",
    "value_after": "verl's critic is not asked after a turn.",
    "logprob": "Call pass_columns().",
    "old_logprob": "Call pass_columns().",
    "reference_logprob": (
        "Let verl keep a reference (actor.use_kl_loss or algorithm.use_kl_in_reward) and call "
        "pass_columns()."
    ),
    **_OURS_ALONE,
}
_FRESH = "Make TRL compute it: steps_per_generation above gradient_accumulation_steps, or use_vllm."
TRL = {
    "view": f"Give what each turn saw as the column {PREFIX + 'view'!r}.",
    "action": f"Give what each turn played as the column {PREFIX + 'action'!r}.",
    "logprob": _FRESH,
    "old_logprob": _FRESH,
    "reference_logprob": "Let TRL keep a reference: beta above 0.",
    **dict.fromkeys(("value", "value_after", "token_value"), "GRPOTrainer has no critic."),
    **_OURS_ALONE,
}
