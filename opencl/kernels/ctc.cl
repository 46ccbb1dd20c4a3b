// Connectionist temporal classification (CTC). The loss of a sample is -log of the total probability of its alignments. An alignment is a path through
// the states blank, label 0, blank, label 1, ..., blank: in each frame it stays, advances by one, or skips a blank between two different labels; in
// state s it takes x[t, class of s].
//   a_t(s) = x[t, s] + log sum_{r -> s} exp a_{t-1}(r),              a_{-1}: in the first blank
//   b_t(s) = log sum_{s -> r} exp(b_{t+1}(r) + x[t+1, r]),           b of the last frame: 0 in the last blank and the last label
//   dx[t, k] = - dy sum_{s of class k} p_t(s),   p_t(s) = exp(a_t(s) + b_t(s)) / sum_r exp(a_t(r) + b_t(r))
// Source: A. Graves et al., Connectionist temporal classification, 2006.
// Rounding errors do not grow with the number of frames: a and b of a frame are relative to the largest value of the frame before (for b: after) among
// states on some path, and the offsets of a are summed with compensation.
// A sample with lengths or labels out of range contributes nothing and sets the error word.
// Layout: x [samples, most_frames, classes]; labels [samples, most_labels]; a row of states: blanks, one more than labels; -infinity; labels;
// -infinity. `a` holds `kept` rows for each sample, used in turn; the first is the one before frame 0.
// Mapping: GROUP work-items for each sample share the states: 1, with vectorised loops (CPUs), or 64. A launch computes frames first..last-1.
// Options: LABEL, the type of labels and lengths; GROUP.

#include "group.clh"
#include "index.clh"
#include "logarithm.clh"
#include "loops.clh"
#include "rows.clh"

#define WIDTH (2 * most_labels + 3)
#define BLANKS(row) (row)
#define LABELS(row) ((row) + most_labels + 2)

// What all work-items of a group do together; the result is that of all.
#if GROUP == 1
#define SHARED
#define SYNC
#define ALL_MAX(mine) (mine)
#define ALL_SUM(mine) (mine)
#else
#define SHARED __local float shared[GROUP];
#define SYNC barrier(CLK_GLOBAL_MEM_FENCE);
#define ALL_MAX(mine) group_max(shared, mine)
#define ALL_SUM(mine) group_sum(shared, mine)
#endif

static inline float log_sum_2(float p, float q) {
  const float top = fmax(p, q), origin = top == -INFINITY ? 0.0f : top;
  return origin + logarithm(exponential(p - origin) + exponential(q - origin));
}
static inline float log_sum_3(float p, float q, float r) {
  const float top = fmax(fmax(p, q), r), origin = top == -INFINITY ? 0.0f : top;
  return origin + logarithm(exponential(p - origin) + exponential(q - origin) + exponential(r - origin));
}

/// Whether a path may skip the blank before label i; before label 0 there is none to come from.
static inline int skips(__global const LABEL* labels, long i) { return labels[i] != labels[max(i - 1, 0L)]; }

/// The blanks and labels that lie on some path in frame t, both ends included.
typedef struct {
  long first_blank, last_blank, first_label, last_label;
} Window;
static inline Window window_of(long t, long frames, long count) {
  Window w;
  w.first_blank = max(count + 1 - (frames - t), 0L);
  w.last_blank = min(count, max(t, 0L));
  w.first_label = max(count - (frames - t), 0L);
  w.last_label = min(count - 1, t);
  return w;
}

/// A work-item's part of the largest of x[first..last].
static inline float part_max(__global const float* x, long first, long last) {
#if GROUP == 1
  return row_max(x + first, last - first + 1);
#else
  float top = -INFINITY;
  for (long i = first + get_local_id(0); i <= last; i += GROUP) top = fmax(top, x[i]);
  return top;
#endif
}

/// x[i] = exponential(x[i] - top) of first..last. @return a work-item's part of their sum
static inline float part_exponentials(__global float* x, long first, long last, float top) {
#if GROUP == 1
  return row_exponentials(x + first, x + first, last - first + 1, top);
#else
  float total = 0;
  for (long i = first + get_local_id(0); i <= last; i += GROUP) total += x[i] = exponential(x[i] - top);
  return total;
#endif
}

/// {frames, labels} of each sample; frames -1 where a length or a label is out of range.
__kernel void ctc_lengths(__global const LABEL* labels, __global const LABEL* input_lengths, __global const LABEL* target_lengths,
                          __global long* lengths, __global int* error, const long samples, const long most_frames, const long classes,
                          const long most_labels) {
  const long n = get_global_id(0);
  if (n >= samples) return;
  const long frames = input_lengths[n], count = target_lengths[n];
  int usable = 1;
  if (!in_range(frames, most_frames + 1)) {
    report_as(LENGTH_OUT_OF_RANGE, frames, most_frames + 1, error);
    usable = 0;
  }
  if (!in_range(count, most_labels + 1)) {
    report_as(LENGTH_OUT_OF_RANGE, count, most_labels + 1, error);
    usable = 0;
  }
  for (long i = 0; i < count && usable; ++i)
    if (!in_range(labels[n * most_labels + i], classes)) {
      report(labels[n * most_labels + i], classes, error);
      usable = 0;
    }
  lengths[2 * n] = usable ? frames : -1;
  lengths[2 * n + 1] = usable ? count : 0;
}

/// a, and behind the last frame the losses. @param sums {sum, compensation} of each sample
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void ctc_alphas(__global const float* x, __global const LABEL* labels, __global const long* lengths, __global float* a, __global float* sums,
                __global float* losses, const long most_frames, const long classes, const long most_labels, const long blank, const long kept,
                const int zero_infinity, const long first, const long last) {
  SHARED
  const long n = get_group_id(0), frames = lengths[2 * n], count = lengths[2 * n + 1];
  const int me = get_local_id(0);
  labels += n * most_labels;
  a += n * kept * WIDTH;
  if (first == 0)
    for (long j = me; j < WIDTH; j += GROUP) a[j] = j == 0 ? 0.0f : -INFINITY;
  SYNC
  float sum = first > 0 ? sums[2 * n] : 0.0f, excess = first > 0 ? sums[2 * n + 1] : 0.0f;
  for (long t = first; t < min(last, frames); ++t) {
    __global const float* xt = x + (n * most_frames + t) * classes;
    __global const float* from = a + t % kept * WIDTH;
    __global float* to = a + (t + 1) % kept * WIDTH;
    const Window before = window_of(t - 1, frames, count), w = window_of(t, frames, count);
    const float top = ALL_MAX(fmax(part_max(BLANKS(from), before.first_blank, before.last_blank),
                                   part_max(LABELS(from), before.first_label, before.last_label)));
    const float origin = top == -INFINITY ? 0.0f : top, term = origin - excess, next = sum + term;
    excess = (next - sum) - term;
    sum = next;
    INDEPENDENT
    for (long i = w.first_blank + me; i <= w.last_blank; i += GROUP)
      BLANKS(to)[i] = (log_sum_2(BLANKS(from)[i], LABELS(from)[i - 1]) - origin) + xt[blank];
    INDEPENDENT
    for (long i = w.first_label + me; i <= w.last_label; i += GROUP)
      LABELS(to)[i] = (log_sum_3(LABELS(from)[i], BLANKS(from)[i], skips(labels, i) ? LABELS(from)[i - 1] : -INFINITY) - origin) + xt[labels[i]];
    if (me == 0) BLANKS(to)[w.last_blank + 1] = LABELS(to)[-1] = LABELS(to)[w.last_label + 1] = -INFINITY;
    SYNC
  }
  if (me > 0) return;
  sums[2 * n] = sum;
  sums[2 * n + 1] = excess;
  if (last < most_frames) return;
  __global const float* end = a + max(frames, 0L) % kept * WIDTH;
  const float reached = count > frames ? -INFINITY : log_sum_2(BLANKS(end)[count], LABELS(end)[count - 1]);
  const float loss = -(sum + (reached - excess));
  const int counts_nothing = (frames < 0) | ((zero_infinity != 0) & (loss == INFINITY));
  losses[n] = counts_nothing ? 0.0f : loss;
}

/// dx, from the last frame down. @param losses  with their infinities @param scratch  rows b, b + x and p
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void ctc_backward(__global const float* dy, __global const float* x, __global const LABEL* labels, __global const long* lengths,
                  __global const float* a, __global const float* losses, __global float* scratch, __global float* dx, const long most_frames,
                  const long classes, const long most_labels, const long blank, const int zero_infinity, const long first, const long last) {
  SHARED
  const long n = get_group_id(0), given = lengths[2 * n], count = lengths[2 * n + 1];
  const int me = get_local_id(0);
  const float loss = losses[n];
  const long frames = isfinite(loss) ? given : 0;  // that some path goes through
  const float elsewhere = isfinite(loss) || (zero_infinity && loss == INFINITY) ? 0.0f : NAN;
  __global float* b = scratch + n * 3 * WIDTH;
  __global float* bx = b + WIDTH;
  __global float* p = bx + WIDTH;
  labels += n * most_labels;
  a += n * (most_frames + 1) * WIDTH;
  for (long t = first; t < last; ++t)
    for (long k = me; k < classes; k += GROUP) dx[(n * most_frames + t) * classes + k] = t < given ? elsewhere : 0.0f;
  if (last == most_frames)
    for (long j = me; j < 3 * WIDTH; j += GROUP) b[j] = j == count || (j == most_labels + 1 + count && count > 0) ? 0.0f : -INFINITY;
  SYNC
  for (long t = min(last, frames) - 1; t >= first; --t) {
    __global float* row = dx + (n * most_frames + t) * classes;
    __global const float* xt = x + (n * most_frames + t) * classes;
    __global const float* at = a + (t + 1) * WIDTH;
    const Window w = window_of(t, frames, count), next = window_of(t - 1, frames, count);
    INDEPENDENT
    for (long i = w.first_blank + me; i <= w.last_blank; i += GROUP) BLANKS(p)[i] = BLANKS(at)[i] + BLANKS(b)[i];
    INDEPENDENT
    for (long i = w.first_label + me; i <= w.last_label; i += GROUP) LABELS(p)[i] = LABELS(at)[i] + LABELS(b)[i];
    SYNC
    const float top = ALL_MAX(fmax(part_max(BLANKS(p), w.first_blank, w.last_blank), part_max(LABELS(p), w.first_label, w.last_label)));
    const float origin = ALL_MAX(fmax(part_max(BLANKS(b), w.first_blank, w.last_blank), part_max(LABELS(b), w.first_label, w.last_label)));
    const float blanks = ALL_SUM(part_exponentials(BLANKS(p), w.first_blank, w.last_blank, top));
    const float scale = -dy[n] / (blanks + ALL_SUM(part_exponentials(LABELS(p), w.first_label, w.last_label, top)));
    INDEPENDENT
    for (long i = w.first_blank + me; i <= w.last_blank; i += GROUP) BLANKS(bx)[i] = (BLANKS(b)[i] - origin) + xt[blank];
    INDEPENDENT
    for (long i = w.first_label + me; i <= w.last_label; i += GROUP) LABELS(bx)[i] = (LABELS(b)[i] - origin) + xt[labels[i]];
    SYNC
    // A class belongs to one work-item, so that the sum over its states has an order.
    if ((blank & (GROUP - 1)) == me) row[blank] = scale * blanks;
    for (long i = w.first_label; i <= w.last_label; ++i)
      if ((labels[i] & (GROUP - 1)) == me) row[labels[i]] += scale * LABELS(p)[i];
    INDEPENDENT
    for (long i = next.first_blank + me; i <= next.last_blank; i += GROUP) BLANKS(b)[i] = log_sum_2(BLANKS(bx)[i], LABELS(bx)[i]);
    INDEPENDENT
    for (long i = next.first_label + me; i <= next.last_label; i += GROUP)
      LABELS(b)[i] = log_sum_3(LABELS(bx)[i], BLANKS(bx)[i + 1], skips(labels, min(i + 1, count - 1)) ? LABELS(bx)[i + 1] : -INFINITY);
    SYNC
  }
}
