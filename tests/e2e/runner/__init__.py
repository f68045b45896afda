"""The C++ runner: built from source, run on bundles that are sound, damaged, or meant to harm."""
