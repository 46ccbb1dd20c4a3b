// total[i] = partial[0, i] + partial[1, i] + ..., or += with `adds`: the end of a sum that was shared out. One work-item an element.

__kernel void add_parts(__global const float* partial, __global float* total, const long elements, const long parts, const int adds) {
  const long i = get_global_id(0);
  if (i >= elements) return;
  float sum = 0;
  for (long part = 0; part < parts; ++part) sum += partial[part * elements + i];
  total[i] = adds ? total[i] + sum : sum;
}
