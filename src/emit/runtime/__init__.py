"""Runtime library of generated programs: handwritten, and the same for every program."""
