// How products are cut: each line of the input is rows, columns, depth, threads, most rows of a block and rows of a
// tile; each line of the output, the most and the fewest rows by a panel that a thread makes if none takes another's
// items.
#include "kernels/cut.h"

#include <stdio.h>

// As the pool hands out `items`.
static size_t first_of(size_t items, unsigned threads, unsigned thread) { return items * thread / threads; }

int main(void) {
  size_t rows, columns, depth, most, high;
  unsigned threads;
  while (scanf("%zu %zu %zu %u %zu %zu", &rows, &columns, &depth, &threads, &most, &high) == 6) {
    const cut made = cut_product(rows, columns, depth, threads, most, high, 1);
    if (made.block > most || made.block * (made.blocks - 1) >= rows || made.block * made.blocks < rows) return 1;
    if (made.chunk * (made.chunks - 1) >= made.panels || made.chunk * made.chunks < made.panels) return 2;
    const size_t items = made.blocks * made.chunks;
    size_t largest = 0, smallest = SIZE_MAX;
    for (unsigned thread = 0; thread < threads; ++thread) {
      size_t work = 0;
      for (size_t i = first_of(items, threads, thread); i < first_of(items, threads, thread + 1); ++i) {
        const size_t block = i / made.chunks, chunk = i % made.chunks;
        const size_t high_here = block + 1 < made.blocks ? made.block : rows - block * made.block;
        const size_t wide_here = chunk + 1 < made.chunks ? made.chunk : made.panels - chunk * made.chunk;
        work += high_here * wide_here;
      }
      if (work > largest) largest = work;
      if (work < smallest) smallest = work;
    }
    printf("%zu %zu\n", largest, smallest);
  }
  return 0;
}
