// Large pages. What ranks read of each other is far more than the translations of 4 KiB pages that a core remembers; in a
// virtual machine each one it has forgotten costs two walks. The system gives larger ones where it is asked to.
#if defined(__linux__)
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include "pages.h"

void lockstep_enlarge_pages(char *memory, size_t bytes) {
  const uintptr_t page = 4096, from = ((uintptr_t)memory + page - 1) & -page, to = ((uintptr_t)memory + bytes) & -page;
  if (to > from) madvise((void *)from, to - from, MADV_HUGEPAGE);
}
#else
#include "pages.h"
void lockstep_enlarge_pages(char *memory, size_t bytes) { (void)memory, (void)bytes; }
#endif
