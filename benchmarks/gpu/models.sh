# The four models in turn with PyTorch: part 6 of `run`, and Gemel's rows for part 7. Read by `run` behind parts.sh.
# A worker is a process of torch_rates.py with settings of its own. It is asked by a line in a pipe and answers with one.

declare -A asks=() answers=() gone=()  # file descriptors of a worker's pipes, by its name; one that has ended has none, but a reason

start_worker() {
  local name=$1 left=$((part_end - SECONDS)) to from greeting
  mkfifo "$scratch/$name.asks" "$scratch/$name.answers"
  "$python" "$here/torch_rates.py" "${@:2}" <"$scratch/$name.asks" >"$scratch/$name.answers" 2>"$scratch/$name.said" &
  worker_ids["$name"]=$!
  disown $!  # its end is not told
  exec {to}>"$scratch/$name.asks" {from}<"$scratch/$name.answers"
  asks[$name]=$to answers[$name]=$from
  if read -r -t $((left > 1 ? left : 1)) -u "$from" greeting && [[ $greeting == ready* ]]; then
    printf '%s: %s\n' "$name" "${greeting#ready }"
    return
  fi
  gone[$name]=$(tail -n 1 "$scratch/$name.said")
  printf '%s: no rates of PyTorch: %s\n' "$name" "${gone[$name]}"
  drop_worker "$name"
  return 1
}

drop_worker() {
  local to=${asks[$1]} from=${answers[$1]}
  kill "${worker_ids[$1]}" 2>/dev/null
  exec {to}>&- {from}<&-
  unset "asks[$1]" "answers[$1]" "worker_ids[$1]"
}

# The median of PyTorch's steps in $median, or - and in $reason why not. $1: worker, then the line that asks.
ask() {
  local name=$1 answer left=$((part_end - SECONDS))
  median=- reason=$no_time
  if ((left < 1)); then return 1; fi
  if [[ -z ${asks[$name]-} ]]; then
    reason=${gone[$name]}
    return 1
  fi
  printf '%s\n' "${*:2}" >&"${asks[$name]}"
  local code=0
  read -r -t "$left" -u "${answers[$name]}" answer || code=$?
  if ((code)); then
    if ((code < 128)); then reason="it ended: $(tail -n 1 "$scratch/$name.said")"; fi
    gone[$name]=$reason
    drop_worker "$name"
    return 1
  fi
  if [[ $answer != ok* ]]; then
    reason=${answer#failed }
    return 1
  fi
  median=$(tr ' ' '\n' <<<"${answer#ok }" | middle)
}
# The median of numbers, a line each.
middle() { sort -g | awk '{ v[NR] = $1 } END { if (NR) printf "%.4g", NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; else printf "-" }'; }

# One side of a case: "gemel", or "WORKER MODE". Its milliseconds in $median.
measure_side() {
  local work=$1 case=$2 side=$3
  median=- reason=
  if [[ $side != gemel ]]; then
    ask "${side% *}" "$work" "$case" "${side#* }" "$warmup" "$runs"
    return
  fi
  take_case "$case"
  rm -f "$scratch/bench.json"
  if gemel bench "$work" "${of_case[@]}" --frontend graph --runs "$runs" --warmup "$warmup" --json "$scratch/bench.json" >"$scratch/table"; then
    median=$(median_of "$scratch/bench.json")
  else
    reason=$words
  fi
}

# A table of one case: the medians of each side by round, and their median. The rounds take all sides in turn. Behind the first, none begins when the case has
# had its share of the time, in which $tables are to be made.
measure_case() {
  local work=$1 case=$2 side round share_end=$((SECONDS + (part_end - SECONDS) / tables))
  shift 2
  tables=$((tables - 1))
  local -A times=() reasons=() dead=()
  for ((round = 0; round <= rounds; ++round)); do  # the one before the first makes everything warm
    if ((round > 1 && SECONDS >= share_end)); then break; fi
    for side in "$@"; do
      if [[ -n ${dead[$side]-} ]]; then continue; fi
      measure_side "$work" "$case" "$side"
      if [[ $median == - ]]; then
        reasons[$side]=$reason
        if ((round == 0)); then dead[$side]=yes; fi
      elif ((round)); then
        times[$side]+=" $median"
      fi
    done
  done
  for side in "$@"; do
    local of_side=${times[$side]-} why=${reasons[$side]-}
    printf '%-24s %-6s %-24s %9s ' "$case" "$work" "${side/#gemel/Gemel, graph}" "$(tr ' ' '\n' <<<"${of_side# }" | sed '/^$/d' | middle)"
    printf ' rounds:%s%s\n' "$of_side" "${why:+ [$why]}"
    if [[ $side == gemel ]]; then continue; fi  # `try` has counted it
    if [[ -n $of_side ]]; then ran=$((ran + 1)); elif [[ $why == "$no_time" ]]; then left_out=$((left_out + 1)); else failed=$((failed + 1)); fi
  done
}

sides_of() {
  if [[ $1 == *-* ]]; then
    printf '%s\n' "plain sdpa" "plain composed" "tf32 sdpa" "tf32 composed"
  else
    printf '%s\n' "plain nchw" "plain channels_last" "benchmark nchw" "benchmark channels_last" "tf32 nchw" "tf32 channels_last"
  fi
}

# $1: gemel, or all
measure_models() {
  local case work sides
  tables=${tables:-$((2 * ${#cases[@]}))}
  printf '%-24s %-6s %-24s %9s\n' case work side "median ms"
  for case in "${cases[@]}"; do
    for work in train infer; do
      sides=()
      if [[ $1 == all && ${#asks[@]} -gt 0 ]]; then mapfile -t sides < <(sides_of "$case"); fi
      measure_case $work "$case" gemel "${sides[@]}"
    done
  done
}

part_models() {
  local device=cuda compiled=("${cases[@]:2}") case work worker tables
  if [[ -n $pretence ]]; then device=cpu compiled=("${cases[3]}"); fi
  printf 'PyTorch, plain: float32 without TF32; benchmark: the same with cudnn.benchmark; tf32: TF32 allowed, with cudnn.benchmark.\n'
  printf 'Rounds, all sides in turn: %s, or as many as the time allows. Steps of each, whose median counts: %s, behind %s others.\n' "$rounds" "$runs" "$warmup"
  if start_worker plain $device; then
    start_worker benchmark $device --benchmark
    start_worker tf32 $device --benchmark --tf32
    start_worker compiled $device --benchmark
  fi
  tables=$((2 * (${#cases[@]} + ${#compiled[@]})))
  measure_models all
  if [[ -n ${asks[compiled]-} ]]; then
    printf '\ntorch.compile, of channels_last and sdpa, float32 without TF32:\n'  # last, as it takes long
    for case in "${compiled[@]}"; do
      for work in train infer; do measure_case $work "$case" gemel "compiled compile" "compiled compile_graphs"; done
    done
  fi
  for worker in "${!asks[@]}"; do drop_worker "$worker"; done
}
