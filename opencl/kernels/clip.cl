// Gradient clipping by norm over slabs (pages.clh): sums of squares of the pages that have a row of hyperparameters, then
// gradients *= min(1, most / (norm + 1e-6)).
// page_squares: item or group k sums the k-th of equal ranges of pages. The sums of all slabs are added in order.
// Mapping: _runs: for CPUs, one work-item for each range, and `chunk` elements when clipping. _groups: GROUP work-items for each range, and one for
//          each element when clipping.

#define GROUP 256
#include "group.clh"
#include "loops.clh"
#include "pages.clh"
#include "rows.clh"

__kernel void page_squares_runs(__global const float* restrict g, __global const int2* restrict pages, __global float* restrict squares,
                                const long n) {
  const long all = (n + PAGE - 1) / PAGE, run = (all + get_global_size(0) - 1) / get_global_size(0);
  const long first = get_global_id(0) * run, last = min(first + run, all);
  float total = 0;
  for (long page = first; page < last; ++page)
    if (pages[page].x >= 0) total += row_dot(g + page * PAGE, g + page * PAGE, min((long)pages[page].y, n - page * PAGE), 0);
  squares[get_global_id(0)] = total;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void page_squares_groups(__global const float* restrict g, __global const int2* restrict pages, __global float* restrict squares,
                         const long n, const long sums) {
  __local float shared[GROUP];
  const long all = (n + PAGE - 1) / PAGE, run = (all + sums - 1) / sums, first = get_group_id(0) * run, last = min(first + run, all);
  float mine = 0;
  for (long page = first; page < last; ++page)
    for (int i = get_local_id(0); pages[page].x >= 0 && i < min((long)pages[page].y, n - page * PAGE); i += GROUP)
      mine += g[page * PAGE + i] * g[page * PAGE + i];
  const float total = group_sum(shared, mine);
  if (get_local_id(0) == 0) squares[get_group_id(0)] = total;
  for (long k = get_num_groups(0) + get_global_id(0); k < sums; k += get_global_size(0)) squares[k] = 0;  // of no pages
}

static inline float scale_for(const float norm, const float most) { return min(1.0f, most / (norm + 1e-6f)); }

__kernel void clip_pages_runs(__global float* restrict g, __global const int2* restrict pages, __global const float* restrict squares,
                              __global float* restrict norm, const long n, const long sums, const long chunk, const float most) {
  float total = 0;
  for (long k = 0; k < sums; ++k) total += squares[k];
  const float length = sqrt(total), scale = scale_for(length, most);
  if (get_global_id(0) == 0) *norm = length;
  for EACH_PAGE(page) {
    const struct Run run = run_of(page, pages, n, chunk);
    INDEPENDENT
    for MINE(i, run) g[i] *= scale;
  }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void clip_pages_groups(__global float* restrict g, __global const int2* restrict pages, __global const float* restrict squares,
                       __global float* restrict norm, const long n, const long sums, const float most) {
  __local float shared[GROUP];
  float mine = 0;
  for (long k = get_local_id(0); k < sums; k += GROUP) mine += squares[k];
  const float length = sqrt(group_sum(shared, mine)), scale = scale_for(length, most);
  const long i = get_global_id(0);
  if (i == 0) *norm = length;
  if (i < n && pages[i / PAGE].x >= 0 && i % PAGE < pages[i / PAGE].y) g[i] *= scale;
}
