# The parts of `run` but for those that measure whole models, which are in models.sh. Each writes its result to standard output.
# Read by `run`, whose variables these are: program, out, scratch, pretence, part_end, the counts ran, failed, left_out; and share, which a part of many
# commands sets to 3, so that one that hangs takes a third of what is left, or a minute.

if [[ -z $pretence ]]; then
  cases=(resnet50:32:3x224x224 vgg16:32:3x224x224 mobilenet_v2:32:3x224x224 bert-base:8:128)
  cubes=(4096 2048) of_bert=(768 3072 1024) runs=20 warmup=5 rounds=5 profiled=5
else
  cases=(resnet50:2:3x32x32 vgg16:2:3x32x32 mobilenet_v2:2:3x32x32 bert-tiny:2:8)
  cubes=(128) of_bert=(192 256 128) runs=1 warmup=1 rounds=1 profiled=2
fi

no_time="no time is left"
# $1: why, then a command where it is one.
leave_out() {
  words=$1
  printf 'left out, %s%s\n' "$1" "$(shown ": " "${@:2}")" >&2
  left_out=$((left_out + 1))
}
# A command as it is told: behind $1, where there is one.
shown() {
  local text=${*:2}
  text=${text//"$program/"/}
  printf '%s' "${text:+$1${text//"$scratch/"/}}"
}

# A command within what is left of the part. Where it fails its last words are in $words, and more of them in the result, to which standard error goes.
try() {
  local left=$((part_end - SECONDS)) code=0
  if ((left < 1)); then
    leave_out "$no_time" "$@"
    return 1
  fi
  if ((left / share > 60)); then left=$((left / share)); elif ((left > 60 && share > 1)); then left=60; fi
  {
    timeout --foreground -k 10 "$left" env LD_LIBRARY_PATH="$libraries" "$@" 2>"$scratch/said" || code=$?
  } 2>/dev/null  # bash tells of crashes too
  if ((code == 0)); then
    ran=$((ran + 1))
    return
  fi
  failed=$((failed + 1))
  words=$(tail -n 1 "$scratch/said")
  words="status $code${words:+: $words}"
  if ((code == 124 || code == 137)); then words="ended at its limit of $left s"; elif ((code > 128)); then words="ended by SIG$(kill -l "$code")"; fi
  printf 'failed, %s%s\n' "$words" "$(shown ": " "$@")" >&2
  tail -n "${shown_lines:-5}" "$scratch/said" | sed 's/^/  /' >&2
  return $code
}
gemel() { try "$program/gemel" "$@"; }
probing=(env GEMEL_PRETEND="${pretence:+gpu}")  # probes of a device's rates are as long as a pretended card would need them

# The options of a case MODEL:BATCH:CxHxW or MODEL-CONFIG:BATCH:LENGTH, in the array of_case.
take_case() {
  local title batch input
  IFS=: read -r title batch input <<<"$1"
  of_case=(--model "${title%%-*}" --batch-size "$batch" --input "$input")
  if [[ $title == *-* ]]; then of_case+=(--config "${title#*-}"); fi
}

# The variants of operator $1 that a GPU may take.
variants_of() { LD_LIBRARY_PATH=$libraries "$program/gemel" ops "$1" | awk '$1 == "variant" && !/\(for CPUs\)/ { sub(/:$/, "", $2); print $2 }'; }
# Ways to compute a float32 product, but for the slow one that takes any.
forms_of_products() { variants_of matmul | grep -vx -e columns -e widened; }

part_device() {
  local check checks=()
  for check in version build libraries distribution processor gpus drivers device; do checks+=(--check $check); done
  gemel --version
  gemel devices
  try "${probing[@]}" "$program/gemel" devices --measure
  try env GEMEL_PRETEND= "$program/gemel" doctor "${checks[@]}"  # of the machine that there is
  if [[ -n ${OCL_ICD_VENDORS-} ]]; then grep -r '' "$OCL_ICD_VENDORS" | sed 's/^/driver file: /'; fi
  for tool in nvidia-smi clinfo; do
    if command -v $tool >/dev/null; then try $tool; else printf '%s is not there\n' $tool; fi
  done
}

# Kernels against a reference in double precision: products first, as most else rests on them.
part_values() {
  local groups=('*Gemm.*:DeviceMatmul.*:*Epilogue.*' 'Convolution.*:all/KernelsCase.*conv2d*' 'DeviceAttention.*:DevicePooling.*:BatchNorm.*'
    'all/KernelsCase.*' 'DeviceQueue.*:DevicePrograms.*:DeviceProfile.*:DeviceLaunch*.*:DeviceAllocator.*:LaunchRecording.*')
  if [[ -n $pretence ]]; then groups=('KernelsGemm.*' 'all/KernelsCase.*/conv2d_0' 'DeviceQueue.*:DeviceProfile.*'); fi
  if [[ ! -x $program/gemel_tests ]]; then
    leave_out "this folder has no gemel_tests"
    return
  fi
  for group in "${groups[@]}"; do
    printf '\n%s\n' "$group"
    try "$program/gemel_tests" --gtest_filter="$group" >"$scratch/tests"
    awk "$of_tests" "$scratch/tests"
  done
}
# What Google Test says of tests that fail, and how many do not.
of_tests='
  /^\[ RUN  / { text = ""; test = $4 }
  { text = text $0 "\n" }
  /^\[       OK/ { ++passed; test = "" }
  /^\[  SKIPPED/ && test { ++skipped; test = "" }
  /^\[  FAILED/ && test { ++failed; test = ""; printf "%s", text }
  END {
    printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
    if (test) print "ended in " test ", which said:\n" text
  }'

part_roofline() {
  mkdir -p "$out/3-roofline"
  for case in "${cases[@]}"; do
    take_case "$case"
    for work in train infer; do
      local file=$out/3-roofline/${case//:/-}-$work.json
      gemel roofline "${of_case[@]}" --work $work --frontend graph --json >"$scratch/counts" || continue
      printf '{"device": %s,\n"case": "%s", "work": "%s", "roofline": %s}\n' "$(facts_as_json roofline)" "$case" $work "$(<"$scratch/counts")" >"$file"
      printf '%-28s %s: ' "$case" $work
      awk '/^  "/ && !/operators/ { gsub(/[",:]/, ""); printf "%s%s %.4g", separator, $1, $2; separator = ", " } END { print "" }' "$scratch/counts"
    done
  done
}

# A profile of training by kernel. $1: the case, $2: its title, $3: words for by_kernel.awk; then options of bench.
profile() {
  local trace=$scratch/trace.json
  local -a choice
  take_case "$1"
  read -ra choice <<<"$3"
  rm -f "$trace" "$scratch/bench.json"
  printf '\n%s; training, graph\n' "$2"
  local how=(--frontend graph --runs "$profiled" --warmup 2 --profile "$trace" --json "$scratch/bench.json")
  gemel bench train "${of_case[@]}" "${how[@]}" "${@:4}" >"$scratch/table" || return
  printf 'a step by the clock, with profiling: %s ms\n' "$(median_of "$scratch/bench.json")"
  awk -v runs=$profiled "${choice[@]}" -f "$here/by_kernel.awk" "$trace"
}
median_of() { awk '$1 == "\"median\":" { print $2 + 0; exit }' "$1"; }
keep_trace() {
  if [[ ! -s $scratch/trace.json ]]; then return; fi
  gzip -c "$scratch/trace.json" >"$out/4-profile/$1.json.gz"
}

part_profile() {
  mkdir -p "$out/4-profile"
  facts profile >"$out/4-profile/device.txt"
  local tiles=() operator
  share=3
  for operator in conv2d conv2d_input_gradient conv2d_weight_gradient; do
    if variants_of $operator | grep -qx group_tiles; then tiles+=(--variant "$operator=group_tiles"); fi
  done
  for case in "${cases[@]}"; do
    profile "$case" "$case" "" && keep_trace "${case//:/-}"
  done
  local own=$(($(forms_of_products | grep -vcx clblast) > 0)) more=("${cases[@]}")
  if [[ -n $pretence ]]; then more=("${cases[0]}" "${cases[3]}"); fi
  for case in "${more[@]}"; do
    profile "$case" "$case, products by CLBlast" "" --gemm clblast && keep_trace "${case//:/-}-clblast"
    if ((own)); then profile "$case" "$case, products by Gemel's own forms" "" --gemm native && keep_trace "${case//:/-}-native"; fi
    if forms_of_products | grep -qx matrix_units; then profile "$case" "$case, in TF32" "" --precision tf32 && keep_trace "${case//:/-}-tf32"; fi
    if [[ $case == *x* && ${#tiles[@]} -gt 0 && $case != mobilenet* ]]; then  # depthwise convolutions have no tiles
      profile "$case" "$case, convolutions by group_tiles" "" "${tiles[@]}" && keep_trace "${case//:/-}-group_tiles"
    fi
  done
  if ((!own)); then printf '\nthis program has no product for GPUs but CLBlast'\''s\n'; fi
  if ((!${#tiles[@]})); then printf '\nthis program has no group_tiles for convolutions\n'; fi
}

# The case of a layer of GPT-2, whose products all have $3 rows: by $1 x $1, $1 x $2 and $2 x $1, and by $1 x 3 $1, as they are and transposed.
layer() {
  local tokens=$(($3 < 128 * 16 ? 16 : 128))
  printf '{"model_type": "gpt2", "vocab_size": %s, "n_embd": %s, "n_layer": 1, "n_head": %s, "n_inner": %s, "n_positions": 128}\n' \
    "$1" "$1" $(($1 / 64)) "$2" >"$scratch/$1.json"
  printf 'gpt2-%s:%s:%s' "$scratch/$1.json" $(($3 / tokens)) $tokens
}

# The products of a case by each form. Without gemel_kernels by a profile of each; then all products of the case must be such as each form takes.
measure_products() {
  local case=$1 title=$2 form
  if [[ -x $program/gemel_kernels ]]; then
    printf '\n%s\n' "$title"
    take_case "$case"
    try "${probing[@]}" "$program/gemel_kernels" train "${of_case[@]}" --op matmul --variants all --runs 5
    return
  fi
  for form in "${forms[@]}"; do
    profile "$case" "$title, by $form" "-v only=^matmul -v rows=12" --variant "matmul=$form" || printf '%s did not compute it\n' "$form"
  done
}

part_products() {
  local forms size operator
  share=3
  mapfile -t forms < <(forms_of_products)
  printf 'forms: %s\n' "${forms[*]}"
  for size in "${cubes[@]}"; do measure_products "$(layer "$size" "$size" "$size")" "a layer with products of $size x $size by $size x $size"; done
  measure_products "$(layer "${of_bert[@]}")" "a layer with BERT's products: width ${of_bert[0]}, inside ${of_bert[1]}, rows ${of_bert[2]}"
  if [[ ! -x $program/gemel_kernels ]]; then
    leave_out "rates of single convolutions: this folder has no gemel_kernels"
    return
  fi
  for operator in conv2d conv2d_input_gradient conv2d_weight_gradient; do
    printf '\n%s of %s\n' $operator "${cases[0]}"
    take_case "${cases[0]}"
    try "${probing[@]}" "$program/gemel_kernels" train "${of_case[@]}" --op $operator --variants all --runs 5
  done
}

# Gemel's part 6 again, with the table of measured choices.
part_tuning() {
  local of_pictures=(--model resnet50,vgg16,mobilenet_v2 --batch-size 32) of_texts=(--model bert --config base --batch-size 8 --input 128)
  if [[ -n $pretence ]]; then of_pictures=(--model lenet --batch-size 2 --runs 1) of_texts=(--model bert --config tiny --batch-size 2 --input 8 --runs 1); fi
  local tables='' whole_end=$part_end shown_lines=1000  # what is measured before the limit is in the table
  part_end=$((SECONDS + (part_end - SECONDS) / 3))
  gemel tune "${of_texts[@]}" && cat "$scratch/said"  # a line for each operator
  part_end=$((SECONDS + (whole_end - SECONDS) / 2))
  gemel tune "${of_pictures[@]}" && cat "$scratch/said"
  part_end=$whole_end
  printf '\nwith that table:\n'
  measure_models gemel
}

part_binaries() {
  facts binaries >"$out/binaries/device.txt"
  local files bytes
  files=$(find "$out/binaries" -type f | wc -l) bytes=$(du -sb "$out/binaries" | cut -f 1)
  printf 'what the driver made of the kernels, in binaries/: %s files, %s bytes\n' "$files" "$bytes"
  printf 'by what they are compiled for, where they say so:\n'
  grep -rahoE '^\.(target|version) [A-Za-z0-9_.]+' "$out/binaries" | sort | uniq -c
  ran=$((ran + 1))
}
