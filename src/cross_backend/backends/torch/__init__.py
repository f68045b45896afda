"""Backends of torch itself: one file a way to run a program; what they share begins with an underscore."""
