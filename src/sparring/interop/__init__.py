"""Sparring inside other libraries: credit and losses in trainers, environments in their interfaces.

``verl.py`` and ``trl.py`` bring estimators and losses to these trainers. ``pettingzoo.py``,
``gymnasium.py`` and ``textarena.py`` offer the environments. Each of these modules imports its
library; no other module needs these packages.
"""
