// Sum of partial results: total[i] = partial[0, i] + partial[1, i] + ..., or += with `adds`. Adds in blocks to keep rounding errors small.
// Mapping: one work-item for each element. On GPUs: gpu/parts.cl.
#define BLOCK 64

__kernel void add_parts(__global const float* partial, __global float* total, const long elements, const long parts, const int adds) {
  const long i = get_global_id(0);
  if (i >= elements) return;
  float sum = 0;
  for (long part = 0; part < parts;) {
    const long end = min(part + BLOCK, parts);
    float of_block = 0;
    for (; part < end; ++part) of_block += partial[part * elements + i];
    sum += of_block;
  }
  total[i] = adds ? total[i] + sum : sum;
}
