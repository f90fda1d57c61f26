"""The software named in checkpoints. Written by scripts/contracts.mjs from src/base/software.ts: change it there."""
SOFTWARE = "lockstep 0.1.0, emitted PyTorch"
