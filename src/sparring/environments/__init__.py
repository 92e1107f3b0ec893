"""Environments: rules, roles and prompts of tasks and games, and their trees for solvers."""
