"""Localize: which part of a program a backend computes wrongly."""
