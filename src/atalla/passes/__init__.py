"""Passes: what an exported program goes through on its way to a blob; ``compiler`` calls them in order."""
