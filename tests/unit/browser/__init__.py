"""The page in a browser: frames, the channel, and the real thing."""
