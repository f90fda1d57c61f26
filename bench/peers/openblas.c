// OpenBLAS, one thread. Requests, one line each:
//   answer m n k transA transB accumulate file   writes the result once to a file of f32
//   time m n k transA transB accumulate runs     processor seconds of one run, the mean of so many
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "numbers.h"

extern void openblas_set_num_threads(int);
extern char *openblas_get_corename(void);

static float *matrix(long n, uint32_t seed) {
  float *x = aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
  for (long i = 0; i < n; i++) x[i] = noise(i, seed);
  return x;
}

struct product {
  int m, n, k, trans_a, trans_b, accumulate;
  float *a, *b, *out;
};

static void multiply(const struct product *p) {
  cblas_sgemm(CblasRowMajor, p->trans_a ? CblasTrans : CblasNoTrans, p->trans_b ? CblasTrans : CblasNoTrans, p->m, p->n,
              p->k, 1, p->a, p->trans_a ? p->m : p->k, p->b, p->trans_b ? p->k : p->n, p->accumulate ? 1 : 0, p->out,
              p->n);
}

static double seconds(const struct product *p, int runs) {
  double start = processor_seconds();
  for (int i = 0; i < runs; i++) multiply(p);
  return (processor_seconds() - start) / runs;
}

static int save(const struct product *p, const char *path) {
  FILE *file = fopen(path, "wb");
  if (!file) return 0;
  size_t n = (size_t)p->m * p->n, written = fwrite(p->out, sizeof(float), n, file);
  return fclose(file) == 0 && written == n;
}

int main(void) {
  char line[4096], word[16], last[4000];
  openblas_set_num_threads(1);
  printf("ready %s\n", openblas_get_corename());
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    struct product p;
    if (sscanf(line, "%15s %d %d %d %d %d %d %3999s", word, &p.m, &p.n, &p.k, &p.trans_a, &p.trans_b, &p.accumulate,
               last) != 8) {
      printf("failed cannot read %s", line);
    } else {
      p.a = matrix((long)p.m * p.k, 1);
      p.b = matrix((long)p.k * p.n, 2);
      p.out = matrix((long)p.m * p.n, 3);
      if (strcmp(word, "time") == 0) {
        multiply(&p);  // everybody's caches are warm
        printf("ok %.9g\n", seconds(&p, atoi(last)));
      } else {
        multiply(&p);
        puts(save(&p, last) ? "ok" : "failed cannot write the result");
      }
      free(p.a), free(p.b), free(p.out);
    }
    fflush(stdout);
  }
  return 0;
}
