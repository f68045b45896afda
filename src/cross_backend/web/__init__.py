"""Web: the playground, the results browser and the small HTTP API behind both, served from this machine."""
