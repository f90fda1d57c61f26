#pragma once

// Binds the calling thread to its share of the cores, or to all of them where they cannot be shared out evenly.
void lockstep_bind(int rank, int ranks);
