"""LiteRT, formerly TensorFlow Lite: Google's engine for phones; converted in a toolchain, run by a small package."""
