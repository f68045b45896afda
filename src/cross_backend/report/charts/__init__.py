"""Charts: SVG drawn from results, which prints, needs no script, and can be read without colour."""
