// Clipping by norm on CPUs: a work-item a run of pages, and `chunk` elements of the clipping. Legend: clip.clh.

#include "lib/loops.clh"
#include "lib/ops/clip.clh"
#include "lib/rows.clh"

__kernel void page_squares_runs(__global const float* restrict g, __global const int2* restrict pages, __global float* restrict squares,
                                const long n) {
  const long all = (n + PAGE - 1) / PAGE, run = (all + get_global_size(0) - 1) / get_global_size(0);
  const long first = get_global_id(0) * run, last = min(first + run, all);
  float total = 0;
  for (long page = first; page < last; ++page)
    if (pages[page].x >= 0) total += row_dot(g + page * PAGE, g + page * PAGE, min((long)pages[page].y, n - page * PAGE), 0);
  squares[get_global_id(0)] = total;
}

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
