// Open MPI: the collectives, one process a rank. Requests on rank 0's input, one line each:
//   answer operation bytes       the digest of every rank's result
//   time operation bytes runs    seconds of one run, the best of so many; operands are rewritten before each
// bytes: of one rank's operand, except all-gather (of the whole result). The time of a run is that of its slowest rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "numbers.h"

enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, SEND_RECV, OPERATIONS };
static const char *const names[] = {"all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-recv"};

static int me, ranks;

struct request {
  int answer, operation, runs;
  long bytes;
};

static void collective(int operation, float *x, float *out, long n) {
  int part = (int)(n / ranks);
  switch (operation) {
    case ALL_REDUCE: MPI_Allreduce(MPI_IN_PLACE, x, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case ALL_GATHER: MPI_Allgather(x, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); break;
    case REDUCE_SCATTER: MPI_Reduce_scatter_block(x, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
    case ALL_TO_ALL: MPI_Alltoall(x, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD); break;
    case SEND_RECV:  // round the ring
      MPI_Sendrecv(x, (int)n, MPI_FLOAT, (me + 1) % ranks, 0, out, (int)n, MPI_FLOAT, (me + ranks - 1) % ranks, 0,
                   MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static double timed(const struct request *r, float *x, float *out, long n) {
  double best = 1e9;
  long own = r->operation == ALL_GATHER ? n / ranks : n;
  for (int run = 0; run < r->runs; run++) {
    for (long i = 0; i < own; i++) x[i] = (float)(me + run);
    MPI_Barrier(MPI_COMM_WORLD);
    double start = now();
    collective(r->operation, x, out, n);
    double took = now() - start, slowest;
    MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (slowest < best) best = slowest;
  }
  return best;
}

static void serve(const struct request *r) {
  long n = r->bytes / (long)sizeof(float), part = n / ranks;
  float *x = malloc(r->bytes), *out = malloc(r->bytes);
  for (long i = 0; i < n; i++) x[i] = whole_number(i, me), out[i] = 0;
  if (r->answer) {
    collective(r->operation, x, out, n);
    const float *result = r->operation == ALL_REDUCE ? x : out;
    double mine = digest(result, r->operation == REDUCE_SCATTER ? part : n), all[ranks];
    MPI_Gather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (me == 0) {
      printf("ok");
      for (int i = 0; i < ranks; i++) printf(" %.17g", all[i]);
      puts("");
    }
  } else {
    double seconds = timed(r, x, out, n);
    if (me == 0) printf("ok %.9g\n", seconds);
  }
  fflush(stdout);
  free(x), free(out);
}

// Rank 0 reads; bytes < 0: the input has ended.
static struct request next(void) {
  char line[256], word[16], name[32];
  struct request r = {.bytes = -1};
  while (fgets(line, sizeof line, stdin)) {
    r.operation = OPERATIONS, r.runs = 1;
    sscanf(line, "%15s %31s %ld %d", word, name, &r.bytes, &r.runs);
    r.answer = strcmp(word, "answer") == 0;
    for (int i = 0; i < OPERATIONS; i++)
      if (strcmp(name, names[i]) == 0) r.operation = i;
    if (r.operation < OPERATIONS) return r;
    printf("failed no operation %s\n", name);
    fflush(stdout);
    r.bytes = -1;
  }
  return r;
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Barrier(MPI_COMM_WORLD);
  if (me == 0) puts("ready"), fflush(stdout);
  for (;;) {
    struct request r;
    if (me == 0) r = next();
    // A blocking broadcast would spin and take the cores from the contender whose turn it is.
    MPI_Request pending;
    MPI_Ibcast(&r, sizeof r, MPI_BYTE, 0, MPI_COMM_WORLD, &pending);
    for (int done = 0; MPI_Test(&pending, &done, MPI_STATUS_IGNORE), !done;) usleep(1000);
    if (r.bytes < 0) break;
    serve(&r);
  }
  MPI_Finalize();
  return 0;
}
