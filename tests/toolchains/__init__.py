"""Targets that run in a toolchain, run for real; collected only where ``--toolchains`` names what is added here."""
