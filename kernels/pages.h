#pragma once
#include <stddef.h>

// Asks for large pages for memory that nobody has touched yet. It may be refused: nothing but speed depends on it.
void lockstep_enlarge_pages(char *memory, size_t bytes);
