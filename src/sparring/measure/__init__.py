"""Exploitability, regret, matches, ratings, adaptation and the credit lab."""
