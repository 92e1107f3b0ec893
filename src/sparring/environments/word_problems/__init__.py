"""Word problems: one seat reads a short story and says how many things there are in the end."""

from sparring.environments.word_problems.rules import WordProblems

word_problems = WordProblems
