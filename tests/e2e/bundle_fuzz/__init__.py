"""Bundles that were damaged, or made to harm: one clear error each, and nothing is written outside."""
