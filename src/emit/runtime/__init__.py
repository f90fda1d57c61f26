"""What emitted programs run on: written by hand, the same for every program."""
