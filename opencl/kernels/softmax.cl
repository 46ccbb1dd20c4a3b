// Softmax:   y[i] = exp(x[i] - max x) / sum_j exp(x[j] - max x)
// Layout: x as [outer, n, inner], normalised along n.
// softmax_any: one work-item for each (outer, inner).   softmax_group: inner = 1, a group of 64 items for each row.

__kernel void softmax_any(__global const float* x, __global float* y, const long outer, const long n, const long inner) {
  const long i = get_global_id(0);
  if (i >= outer * inner) return;
  const long base = (i / inner) * n * inner + i % inner;
  float top = -INFINITY, total = 0;
  for (long j = 0; j < n; ++j) top = fmax(top, x[base + j * inner]);
  for (long j = 0; j < n; ++j) {
    const float e = exp(x[base + j * inner] - top);
    y[base + j * inner] = e;
    total += e;
  }
  const float scale = 1 / total;
  for (long j = 0; j < n; ++j) y[base + j * inner] *= scale;
}

#define GROUP 64

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void softmax_group(__global const float* x, __global float* y, const long n) {
  __local float shared[GROUP];
  const long base = get_group_id(0) * n;
  const int me = get_local_id(0);
  float top = -INFINITY;
  for (long j = me; j < n; j += GROUP) top = fmax(top, x[base + j]);
  shared[me] = top;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int part = GROUP / 2; part > 0; part /= 2) {
    if (me < part) shared[me] = fmax(shared[me], shared[me + part]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  top = shared[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  float total = 0;
  for (long j = me; j < n; j += GROUP) {
    const float e = exp(x[base + j] - top);
    y[base + j] = e;
    total += e;
  }
  shared[me] = total;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int part = GROUP / 2; part > 0; part /= 2) {
    if (me < part) shared[me] += shared[me + part];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  const float scale = 1 / shared[0];
  for (long j = me; j < n; j += GROUP) y[base + j] *= scale;
}
