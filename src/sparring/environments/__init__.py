"""Environments: rules, roles and wording, and what searches them."""
