"""Blob: the bytes of a compiled program; how they are written, read, proved sound and shown."""
