"""IREE: one compiler, one file a device; what they share begins with an underscore."""
