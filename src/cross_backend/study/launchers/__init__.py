"""Launchers: who measures the panels of a study: this machine, or a cluster."""
