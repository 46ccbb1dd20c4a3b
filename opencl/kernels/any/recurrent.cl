// What comes before a recurrent layer is read, on any device. Legend: recurrent.clh.
// recurrent_order: lengths in range, and the sequences from the longest to the shortest. Items: one a sequence.
#include "lib/index.clh"

static inline long in_range_or_0(long length, long steps) { return in_range(length, steps + 1) ? length : 0; }

__kernel void recurrent_order(__global const long* given, __global long* lengths, __global long* order, __global int* error, const long sequences,
                              const long steps) {
  const long n = get_global_id(0);
  if (n >= sequences) return;
  if (!in_range(given[n], steps + 1)) report_as(LENGTH_OUT_OF_RANGE, given[n], steps + 1, error);
  const long mine = in_range_or_0(given[n], steps);
  long longer = 0;
  for (long m = 0; m < sequences; ++m) {
    const long other = in_range_or_0(given[m], steps);
    longer += other > mine || (other == mine && m < n);
  }
  lengths[n] = mine;
  order[longer] = n;
}
