"""An object as a key: itself alone is equal, and it is kept."""

import gc
import weakref
from functools import lru_cache

from sparring.core.held import Held


def test_the_same_object_is_one_key_and_an_equal_one_is_another():
    one, equal = [1], [1]
    asked = []
    cached = lru_cache(lambda held: asked.append(held.value) or len(asked))
    assert [cached(Held(one)), cached(Held(one)), cached(Held(equal))] == [1, 1, 2]
    assert Held(one) != one


def test_what_is_held_is_kept_so_that_no_other_object_gets_its_place():
    class Thing:
        pass

    thing = Thing()
    seen, key = weakref.ref(thing), Held(thing)
    del thing
    gc.collect()
    assert seen() is key.value
