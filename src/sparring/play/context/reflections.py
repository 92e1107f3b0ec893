"""Context: from attempt to attempt, the reflections alone."""

from __future__ import annotations

from sparring.play.context.base import Seen, Shown

NEEDS = {"notes"}


def reflections(seen: Seen) -> Shown:
    """Show this attempt, and of earlier attempts the reflections alone.

    What: every attempt of the environment ``trial`` is a conversation of its own. It begins with
    the notes that the seat wrote between the attempts before it, each with the question that asked
    for it and how the attempt had ended, as they were said, id for id. What else was told and said
    in those attempts is not shown.
    When to use: to train a seat to put what it learnt into words (Reflexion, LaMer's setting
    "reflection only"), and to keep many attempts within the model's context.
    Mathematics: the conversation of attempt k begins with

        note(0), note(1), ..., note(k-1)

    so that a reply in attempt k depends on earlier attempts through the notes alone. A note is
    trained with the return of what follows, which is what makes it worth writing.
    Pitfalls: a note that says nothing loses everything; look at the notes with `sparring show`. In
    a trial with ``memory: notes`` the environment itself begins each attempt afresh and tells the
    notes as text; then this strategy has nothing left to do.
    Reference: Reflexion (arXiv 2303.11366); LaMer (arXiv 2512.16848); MAGE (arXiv 2603.03680).
    Verified by: tests/play/context/test_reflections.py.
    """
    now = seen.observation.attempt
    kept = (one for one in seen.past if one.observation.note or one.observation.attempt == now)
    return Shown(tuple(kept), seen.text)
