// Clipping by norm on GPUs: GROUP work-items a run of pages, and one an element of the clipping. Legend: clip.clh.

#define GROUP 256
#include "lib/group.clh"
#include "lib/ops/clip.clh"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void page_squares_groups(__global const float* restrict g, __global const int2* restrict pages, __global float* restrict squares,
                         const long n, const long sums, const long run) {
  __local float shared[GROUP];
  const long first = get_group_id(0) * run, last = min(first + run, (n + PAGE - 1) / PAGE);
  float mine = 0;
  for (long page = first; page < last; ++page)
    for (int i = get_local_id(0); pages[page].x >= 0 && i < min((long)pages[page].y, n - page * PAGE); i += GROUP)
      mine += g[page * PAGE + i] * g[page * PAGE + i];
  const float total = group_sum(shared, mine);
  if (get_local_id(0) == 0) squares[get_group_id(0)] = total;
  for (long k = get_num_groups(0) + get_global_id(0); k < sums; k += get_global_size(0)) squares[k] = 0;  // of no pages
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
