# Of a Chrome trace of `gemel bench train --profile`, one event a line: where the time of a step goes, by kernel and by problem.
#   awk -v runs=5 [-v only=matmul] [-v rows=25] -f by_kernel.awk trace.json
# The last `runs` steps count; a step ends with its update. A problem is what one call of an operator computes; its FLOPs and bytes are those that its last
# kernel is charged with, and tell shapes apart. `only`: a regular expression of operators; then problems alone are printed.
BEGIN {
  FS = "\""
  if (!rows) rows = 25
  step = 0
}

function number(key,   at) {
  at = index($0, "\"" key "\":")
  return at ? substr($0, at + length(key) + 3) + 0 : 0
}

/"cat":"kernel"/ {
  is_update = $4 ~ /_update/
  if (was_update && !is_update) ++step
  was_update = is_update
  name[++events] = $4
  of_step[events] = step
  microseconds[events] = number("dur")
  flops[events] = number("flops")
  bytes[events] = number("bytes")
}

function charge(op, flops, bytes,   key) {
  key = op "\t" kernels[op] "\t" flops "\t" bytes
  calls[key] += 1
  time[key] += pending[op]
  delete pending[op]
  delete kernels[op]
}

END {
  if (!was_update) --step  # what follows the last update is no step
  first = step - runs + 1
  for (i = 1; i <= events; ++i) {
    if (of_step[i] < first || of_step[i] > step) continue
    op = name[i]
    kernel = "-"
    if (at = index(op, "/")) {
      kernel = substr(op, at + 1)
      op = substr(op, 1, at - 1)
    }
    sum += microseconds[i]
    ++launches
    by_name[name[i]] += microseconds[i]
    times[name[i]] += 1
    pending[op] += microseconds[i]
    if (index(" " kernels[op] " ", " " kernel " ") == 0) kernels[op] = kernels[op] (kernels[op] == "" ? "" : " ") kernel
    if (flops[i] + bytes[i] > 0) charge(op, flops[i], bytes[i])
  }
  if (first < 0 || !events) {
    print "the trace has fewer steps than " runs
    exit 1
  }
  if (only == "") {
    printf "kernels of a step: %.3f ms in %.0f launches, mean of %d steps\n", sum / runs / 1000, launches / runs, runs
    printf "%10s %6s %7s  %s\n", "ms a step", "share", "calls", "operator/kernel"
    list = "sort -rn | head -n " rows
    for (n in by_name) printf "%10.4f %5.1f%% %7.1f  %s\n", by_name[n] / runs / 1000, 100 * by_name[n] / sum, times[n] / runs, n | list
    close(list)
  }
  printf "%10s %7s %10s %9s %9s %11s %9s  %s\n", "ms a step", "calls", "ms a call", "GFLOP/s", "GB/s", "GFLOP", "MB", "operator: kernels"
  list = "sort -rn | head -n " rows
  for (key in calls) {
    split(key, part, "\t")
    if (only != "" && part[1] !~ only) continue
    printf "%10.4f %7.1f %10.5f %9.1f %9.1f %11.4f %9.3f  %s: %s\n", time[key] / runs / 1000, calls[key] / runs, time[key] / calls[key] / 1000,
      part[3] * calls[key] / time[key] / 1e3, part[4] * calls[key] / time[key] / 1e3, part[3] / 1e9, part[4] / 1e6, part[1], part[2] | list
  }
  close(list)
}
