// Layer normalisation on GPUs of rows that the registers of a work-group hold: each is read once. Formulas: layer_norm.clh.
// Mapping: a work-group has ROWS rows at a time, of ITEMS items each. An item has CHUNKS times four neighbouring elements of its row, 4 ITEMS apart. For the
// gradients a group has a span of rows, over which its items add up their columns; layer_norm.cl adds up the spans.
// Options: those of elements.clh; ITEMS, a power of 2 from 16 on; CHUNKS; VECTOR, as in four_elements.clh;
// SUB_GROUP, as in loops.clh.

#include "lib/four_elements.clh"
#include "lib/loops.clh"

#define GROUP 256
#define ROWS (GROUP / ITEMS)
#define OWN_ROW ((int)get_local_id(0) / ITEMS)
#define LANE ((int)get_local_id(0) % ITEMS)
/// The first of an item's elements in a chunk.
#define ELEMENT(chunk) (4 * (LANE + (chunk) * ITEMS))

/// Sums over the items of a row, in a fixed order: 16 of them add up those of every 16th, and each adds up these. All items must call it; `shared` and
/// `sixteen` hold a number for each, and for 16 of each row.
#define ROW_SUM(name, number) \
  static IN_LINE number name(__local number* shared, __local number* sixteen, number mine) { \
    shared[get_local_id(0)] = mine; \
    barrier(CLK_LOCAL_MEM_FENCE); \
    if (LANE < 16) { \
      number part = shared[get_local_id(0)]; \
      UNROLLED (int i = 16; i < ITEMS; i += 16) part += shared[get_local_id(0) + i]; \
      sixteen[OWN_ROW * 16 + LANE] = part; \
    } \
    barrier(CLK_LOCAL_MEM_FENCE); \
    number total = sixteen[OWN_ROW * 16]; \
    UNROLLED (int i = 1; i < 16; ++i) total += sixteen[OWN_ROW * 16 + i]; \
    return total; \
  }
ROW_SUM(row_sum, float)
ROW_SUM(row_sums, float2)

static inline float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }
/// v, and 0 behind the row's end, which `left` elements are before.
static inline float4 within(float4 v, int left) { return (float4)(left > 0 ? v.x : 0, left > 1 ? v.y : 0, left > 2 ? v.z : 0, left > 3 ? v.w : 0); }

__kernel FEW_IN_LOCKSTEP __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void layer_norm_row(__global const STORED* restrict x, __global const STORED* restrict gamma, __global const STORED* restrict beta, __global STORED* restrict y,
                    __global float* restrict mean_out, __global float* restrict inverse_out, const long rows, const int n, const float eps) {
  __local float shared[GROUP], sixteen[16 * ROWS];
  const long own = (long)get_group_id(0) * ROWS + OWN_ROW, r = min(own, rows - 1);
  x += r * n;
  y += r * n;
  float4 v[CHUNKS];
  float total = 0, squares = 0;
  UNROLLED (int c = 0; c < CHUNKS; ++c) {
    v[c] = load_4(x + ELEMENT(c), n - ELEMENT(c));
    total += sum_of(v[c]);
  }
  const float mean = row_sum(shared, sixteen, total) / n;
  UNROLLED (int c = 0; c < CHUNKS; ++c) {
    v[c] = within(v[c] - mean, n - ELEMENT(c));
    squares += dot(v[c], v[c]);
  }
  const float inverse = 1 / sqrt(row_sum(shared, sixteen, squares) / n + eps);
  if (own < rows) {
    if (LANE == 0) {
      mean_out[r] = mean;
      inverse_out[r] = inverse;
    }
    UNROLLED (int c = 0; c < CHUNKS; ++c) {
      const int left = n - ELEMENT(c);
      store_4(v[c] * inverse * load_4(gamma + ELEMENT(c), left) + load_4(beta + ELEMENT(c), left), y + ELEMENT(c), left);
    }
  }
}

/// Adds up an item's four numbers over the rows of the group and stores what the first row's items get.
static IN_LINE void store_columns(__local float4* shared, float4 mine, __global float* to, int left) {
  shared[get_local_id(0)] = mine;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (OWN_ROW == 0) {
    for (int row = 1; row < ROWS; ++row) mine += shared[row * ITEMS + LANE];
    if (left > 0) to[0] = mine.x;
    if (left > 1) to[1] = mine.y;
    if (left > 2) to[2] = mine.z;
    if (left > 3) to[3] = mine.w;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

/// @param parts  [2, spans, n], sums of a span for dgamma and for dbeta
__kernel FEW_IN_LOCKSTEP __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void layer_norm_backward_row(__global const STORED* restrict dy, __global const STORED* restrict x, __global const STORED* restrict gamma,
                             __global const float* restrict means, __global const float* restrict inverses, __global STORED* restrict dx,
                             __global float* restrict parts, const long rows, const int n, const int span_rows) {
  __local float2 shared[GROUP], sixteen[16 * ROWS];
  __local float4 columns[GROUP];
  const long span = get_group_id(0), first = span * span_rows, last = min(first + span_rows, rows);
  float4 dgamma[CHUNKS], dbeta[CHUNKS];
  UNROLLED (int c = 0; c < CHUNKS; ++c) {
    dgamma[c] = 0;
    dbeta[c] = 0;
  }
  for (long begin = first; begin < last; begin += ROWS) {
    const long r = min(begin + OWN_ROW, last - 1);
    const bool is_there = begin + OWN_ROW < last;
    const float mean = means[r], inverse = inverses[r];
    float4 slope[CHUNKS], xhat[CHUNKS];
    float2 sums = 0;
    UNROLLED (int c = 0; c < CHUNKS; ++c) {
      const int left = n - ELEMENT(c);
      const float4 d = load_4(dy + r * n + ELEMENT(c), is_there ? left : 0);
      xhat[c] = (load_4(x + r * n + ELEMENT(c), left) - mean) * inverse;
      dgamma[c] += d * xhat[c];
      dbeta[c] += d;
      slope[c] = d * load_4(gamma + ELEMENT(c), left);
      sums += (float2)(sum_of(slope[c]), dot(slope[c], xhat[c]));
    }
    sums = row_sums(shared, sixteen, sums) / n;
    UNROLLED (int c = 0; c < CHUNKS; ++c)
      store_4(inverse * (slope[c] - sums.x - xhat[c] * sums.y), dx + r * n + ELEMENT(c), is_there ? n - ELEMENT(c) : 0);
  }
  parts += span * n;
  UNROLLED (int c = 0; c < CHUNKS; ++c) {
    store_columns(columns, dgamma[c], parts + ELEMENT(c), n - ELEMENT(c));
    store_columns(columns, dbeta[c], parts + (long)get_num_groups(0) * n + ELEMENT(c), n - ELEMENT(c));
  }
}
