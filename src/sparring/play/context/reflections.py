"""Context strategy: the current attempt, and only the reflections of earlier attempts."""

from __future__ import annotations

from itertools import compress

from sparring.play.context.base import ContextRequest, ContextWindow

NEEDS = {"notes"}


def reflections(request: ContextRequest) -> ContextWindow:
    """Show this attempt, and only the reflections of earlier attempts.

    What: every attempt of the environment ``trial`` is one conversation that begins with the notes
    that the seat wrote after the earlier attempts, token id for token id. Each note follows its
    prompt, which says how the attempt ended. Nothing else of earlier attempts is shown.
    When to use: to train a seat to put what it learnt into words (Reflexion, LaMer's setting
    "reflection only"), and to keep many attempts within the model's context.
    Mathematics: the conversation of attempt k begins with

        note(0), note(1), ..., note(k-1)

    so that a reply in attempt k depends on earlier attempts only through the notes. A note is
    trained with the return of all later turns.
    Pitfalls: after an empty note the seat knows nothing of earlier attempts; look at the notes with
    `sparring show`. In a trial with ``memory: notes`` the environment itself begins each attempt
    with a fresh conversation and the notes as text; then this strategy changes nothing.
    Reference: Reflexion (arXiv 2303.11366); LaMer (arXiv 2512.16848); MAGE (arXiv 2603.03680).
    Verified by: tests/play/context/test_reflections.py.
    """
    attempt = request.observation.attempt
    is_shown = [x.observation.note or x.observation.attempt == attempt for x in request.past]
    return ContextWindow(tuple(compress(request.past, is_shown)), request.text)
