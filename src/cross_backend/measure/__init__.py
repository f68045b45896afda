"""Measure: clocks, what sensors and drivers tell, and the statistics of samples; no bench and no artifact."""
