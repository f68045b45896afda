"""Hostile files of every kind that is read: one clear line each, or nothing wrong."""
