// Ranks to cores. A rank that shares its core with another waits for it at every collective, and the scheduler of a busy
// machine puts them together soon enough: each rank is given cores of its own among those the process may use. Where
// there are more ranks than cores, each core is given as many ranks as every other, if that can be (three on one core and
// one on the other are as slow as three), and neighbours are apart: they meet most often, and idle at the same time.
#if defined(__linux__)
#define _GNU_SOURCE
#include <sched.h>
#include <unistd.h>
#include "cores.h"

// What the process may use is what its first thread may: ranks are other threads, and may have been bound before.
void lockstep_bind(int rank, int ranks) {
  cpu_set_t all, mine;
  if (sched_getaffinity(getpid(), sizeof all, &all) != 0) return;
  const int cores = CPU_COUNT(&all);
  if (ranks > cores && ranks % cores != 0) {
    sched_setaffinity(0, sizeof all, &all);
    return;
  }
  const int from = ranks > cores ? rank % cores : rank * cores / ranks;
  const int to = ranks > cores ? from + 1 : (rank + 1) * cores / ranks;
  CPU_ZERO(&mine);
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all)) {
      if (seen >= from && seen < to) CPU_SET(cpu, &mine);
      seen++;
    }
  sched_setaffinity(0, sizeof mine, &mine);
}
#else
#include "cores.h"
void lockstep_bind(int rank, int ranks) { (void)rank, (void)ranks; }
#endif
