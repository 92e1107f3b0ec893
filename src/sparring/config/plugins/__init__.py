"""Finds plug-ins by name and checks their options."""
