// Commands of rows, for operands that are not all f32.
#pragma once
#include "kernels.h"

typedef void kernel(struct context *, const double *);

// Whether operands of the command must be widened for its kernel, which knows f32 alone.
int needs_steps(int opcode, const double *w);
void run_in_steps(struct context *c, int opcode, const double *w, kernel *run);
