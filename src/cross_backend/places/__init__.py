"""Places: other machines, and how programs are started and files are put there."""
