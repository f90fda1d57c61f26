#pragma once

// Binds the calling thread to its share of the cores, or to all of them where there are more ranks than cores.
void lockstep_bind(int rank, int ranks);
