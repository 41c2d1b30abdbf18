#!/usr/bin/env bash
# The facts that only a GPU can show, in one command inside of an unpacked bundle (third_party/bundle.sh): tests, parity with the
# CPU, NCCL with 1, 2 and 4 ranks on one card, equal bits, predicted memory, throughput and memory beside PyTorch.
#
#   trireme-bundle/tests/bench/gpu_gate.sh [--dry-run] [--only REGEX] RESULTS_FOLDER
#
# --dry-run tries everything that needs no GPU: the same stages, programs and peers on the CPU in tiny shapes.
# --only plays the stages whose names match. Without it all but those named sanitize_*, which want a run of their own,
# and pipeline_state, which is among the tests (nccl_pipeline.np4):
#   trireme-bundle/tests/bench/gpu_gate.sh --only sanitize RESULTS_FOLDER
#   trireme-bundle/tests/bench/gpu_gate.sh --only pipeline_state RESULTS_FOLDER
# Writes a log a stage and gate.json. All or sanitize_* take 9 minutes on a Hopper card (an estimate until one has run it:
# tests and bits 165 s, six comparisons with PyTorch of 55 s, of which it compiles 40, the rest 45 s); a stage that would
# overrun is cut off and counts as failed. Exit code 0 when every stage passed; but for a dry run, one that is skipped
# has not. A missed bar fails the gate too: PyTorch's tokens/s in fp32 and tf32; less than 3 % of a recorded step without
# a kernel. Other speeds are reported.
# Environment: TRIREME_GATE_SECONDS  time for everything (default 540)
#              TRIREME_GATE_PYTHON   a python3 with torch (default: python3)
set -uo pipefail

usage() {
  sed -n 's/^# \{0,1\}//; 2,18p' "$0" >&2
  exit 2
}
device=cuda only=
while [[ ${1:-} == --* ]]; do
  case $1 in
    --dry-run) device=cpu ;;
    --only)
      only=${2:-}
      [ -n "$only" ] || usage
      shift
      ;;
    *) usage ;;
  esac
  shift
done
[ $# = 1 ] || usage
mkdir -p "$1"
results=$(cd "$1" && pwd)
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ -x "$bundle/run" ] || { echo "gpu_gate.sh: $bundle is no unpacked bundle" >&2; exit 2; }
python=${TRIREME_GATE_PYTHON:-python3}
total=${TRIREME_GATE_SECONDS:-540}
stages=$results/stages.tsv
: >"$stages"

wanted() { if [ -n "$only" ]; then [[ $1 =~ $only ]]; else [[ $1 != sanitize_* && $1 != pipeline_state ]]; fi; }
# stage NAME SECONDS COMMAND...: standard output to NAME.out, errors to NAME.err, the outcome to stages.tsv.
stage() {
  local name=$1 limit=$2 started=$SECONDS status
  shift 2
  wanted "$name" || return 0
  [ $((total - SECONDS)) -lt "$limit" ] && limit=$((total - SECONDS))
  if [ "$limit" -lt 5 ]; then
    status=124
    echo "no time left" >"$results/$name.err"
  else
    timeout -k 10 "$limit" "$@" >"$results/$name.out" 2>"$results/$name.err" </dev/null
    status=$?
  fi
  printf '%s\t%s\t%s\n' "$name" "$status" $((SECONDS - started)) >>"$stages"
  printf '%-28s %s (%s s)\n' "$name" "$([ $status = 0 ] && echo ok || echo "FAILED, status $status")" $((SECONDS - started))
  [ $status = 0 ] || tail -n 6 "$results/$name.out" "$results/$name.err"
}
# skip NAME REASON: a stage that this build or machine cannot play.
skip() {
  wanted "$1" || return 0
  printf '%s\tskipped: %s\t0\n' "$1" "$2" >>"$stages"
  printf '%-28s skipped: %s\n' "$1" "$2"
}
export bundle device

stage doctor 30 "$bundle/run" trireme doctor --json --no-measure

# Correctness first. Labels and limits come from the build.
export TRIREME_TEST_LOGS=$results/tests
# The conformance suite comes last: where a library compiles its kernels, no other test should miss the time for it.
if [ "$device" = cuda ]; then
  stage tests 150 "$bundle/run-tests" gpu '^(comm|nccl|cuda_[^c])'
  stage conformance 120 "$bundle/run-tests" gpu '^cuda_conformance'
else
  skip tests "dry run"
  skip conformance "dry run"
fi

# The same state on 1, 2 and 4 ranks: "comm_nccl_test" and "nccl_gpt" ran above; here their hashes are compared.
same_state() {
  local ranks
  for ranks in 1 2 4; do
    "$bundle/run" mpirun -np "$ranks" "$bundle/tests/comm/one_card.sh" nccl_gpt || return 1
  done | tee "$results/nccl_gpt.jsonl"
  [ "$(wc -l <"$results/nccl_gpt.jsonl")" = 3 ] && [ "$(sort -u "$results/nccl_gpt.jsonl" | wc -l)" = 1 ]
}
export -f same_state
export results
if [ "$device" = cuda ]; then stage same_state 60 bash -c same_state; else skip same_state "dry run"; fi

# Stages of a pipeline, four ranks on the card: every layout's state and memory against those of one rank.
if [ "$device" = cuda ]; then
  stage pipeline_state 120 "$bundle/run" mpirun -np 4 "$bundle/tests/comm/one_card.sh" nccl_pipeline
else
  skip pipeline_state "dry run"
fi

# GPT-2 124M: every one of the first steps on the CPU and on the GPU, and the memory that was predicted.
parity_shape="--layers 12 --hidden 768 --heads 12 --vocab 50257 --context 128 --micro-batch 2"
[ "$device" = cuda ] || parity_shape="--layers 2 --hidden 64 --heads 2 --vocab 100 --context 32 --micro-batch 2"
gate_check=$bundle/tests/bench/gate_check.py
parity() {
  local shape="$parity_shape --warmup 0 --steps 5"
  "$bundle/run" gpt_train_bench $shape --device cpu --threads "$(nproc)" >"$results/parity_cpu.json" &&
    "$bundle/run" gpt_train_bench $shape --device "$device" >"$results/parity_cuda.json" &&
    "$python" "$gate_check" parity "$results/parity_cpu.json" "$results/parity_cuda.json"
}
# The same bits twice, and from a recorded step.
same_bits() {
  local shape="$parity_shape --warmup 0 --steps 6 --state-hash --device $device"
  "$bundle/run" gpt_train_bench $shape >"$results/bits_once.json" &&
    "$bundle/run" gpt_train_bench $shape >"$results/bits_again.json" &&
    "$bundle/run" gpt_train_bench $shape --cuda-graph >"$results/bits_recorded.json" &&
    "$python" "$gate_check" same_bits "$results"/bits_{once,again,recorded}.json
}
# The command line, on the card that it finds; its summary.
train() {
  printf '%s\n' '[model]' 'name = "gpt"' 'layers = 2' 'hidden = 64' 'heads = 2' 'vocab = 100' 'seq_len = 64' \
    '[data]' 'kind = "synthetic"' '[train]' 'steps = 3' 'global_batch = 4' 'micro_batch = 2' \
    '[optimizer]' 'lr = 1e-3' '[precision]' 'mode = "bf16"' '[parallel]' "device = \"$device\"" >"$results/train.toml" &&
    "$bundle/run" trireme train "$results/train.toml" --out "$results/train" >&2 && cat "$results/train/summary.json"
}
export -f parity same_bits train
export python parity_shape gate_check
stage parity 60 bash -c parity
stage same_bits 60 bash -c same_bits
stage train 40 bash -c train

# Throughput, ours and PyTorch's one after the other, so that both see the card in the same state. What matters most
# comes first: time may run out.
declare -A shapes=(
  [124m]="--layers 12 --hidden 768 --heads 12 --vocab 50304 --context 1024 --micro-batch 8"
  [350m]="--layers 24 --hidden 1024 --heads 16 --vocab 50304 --context 1024 --micro-batch 8")
peer_options="--device cuda" steps=15
if [ "$device" = cpu ]; then
  for size in "${!shapes[@]}"; do
    shapes[$size]="--layers 2 --hidden 64 --heads 2 --vocab 100 --context 32 --micro-batch 2"
  done
  peer_options="--device cpu --no-compile" steps=2
fi
# time_run SIZE MODE: ours. compare SIZE MODE: ours and PyTorch's.
time_run() {
  # shellcheck disable=SC2086  # options
  stage "trireme_$1_$2" 45 "$bundle/run" gpt_train_bench ${shapes[$1]} --precision "$2" --device "$device" \
    --cuda-graph --steps "$steps" --warmup 5
}
compare() {
  time_run "$1" "$2"
  # shellcheck disable=SC2086
  stage "pytorch_$1_$2" 90 "$python" "$bundle/tests/bench/peers/gpt_pytorch_cuda.py" ${shapes[$1]} \
    $peer_options --math "$2" --steps "$steps"
}
for run in 124m:fp32 124m:tf32 124m:bf16 350m:tf32 350m:bf16 124m:fp16; do compare "${run%:*}" "${run#*:}"; done
for run in 350m:fp32 350m:fp16; do
  if [ -n "$only" ]; then compare "${run%:*}" "${run#*:}"; else time_run "${run%:*}" "${run#*:}"; fi
done

# The gain of recording a step: the same run, every kernel enqueued by the host.
# shellcheck disable=SC2086
stage enqueued_124m_fp32 45 "$bundle/run" gpt_train_bench ${shapes[124m]} --device "$device" --steps "$steps" --warmup 5

# The share of a step in which no kernel runs, of recorded steps and of enqueued ones.
tracer=$bundle/bin/libkernel_trace.so
kernel_share() {
  local how=$1 trace=$results/trace_$1
  shift
  if [ -n "$tracer" ]; then
    CUDA_INJECTION64_PATH=$tracer TRIREME_KERNEL_TRACE=$trace.tsv "$@" >"$trace.json" &&
      "$python" "$bundle/tests/bench/kernel_share.py" "$trace.tsv"
    return
  fi
  nsys profile --trace=cuda --sample=none --cpuctxsw=none --cuda-graph-trace=node --force-overwrite=true -o "$trace" "$@" \
    >"$trace.json" && nsys export --type=sqlite --force-overwrite=true -o "$trace.sqlite" "$trace.nsys-rep" >&2 &&
    "$python" "$bundle/tests/bench/kernel_share.py" "$trace.sqlite"
}
export -f kernel_share
# Without CUPTI, which is one of NVIDIA's libraries, nsys has to do.
[ -e "$tracer" ] && ! "$bundle/run" ldd "$tracer" | grep -q 'not found' || tracer=
export tracer
for how in recorded enqueued; do
  option=
  [ "$how" = enqueued ] || option=--cuda-graph
  if [ "$device" = cpu ]; then
    skip "kernel_share_$how" "dry run"
  elif [ -z "$tracer" ] && ! command -v nsys >/dev/null; then
    skip "kernel_share_$how" "this machine has neither CUPTI nor nsys"
  else
    # shellcheck disable=SC2086
    stage "kernel_share_$how" 40 bash -c 'kernel_share "$@"' - "$how" "$bundle/run" gpt_train_bench ${shapes[124m]} \
      --device cuda --steps 20 --warmup 5 $option
  fi
done

# Under the sanitizers: everything that calls the card, in small cases; the native kernels for races.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda{,-*}/{bin,compute-sanitizer}/compute-sanitizer 2>/dev/null | head -n 1)
small='-*LongSums*:*CopiedOperands*:*OneThreadMeansOne*'
own='*LayerNorm*:*Attention*:*CrossEntropy*:*ColumnSum*:*Embedding*:*Optimizer*:*Elementwise*:*Dropout*:*LossScale*:*Cast*:*Conv*:*BatchNorm*:*Pool*:*SoftTargets*'
# sanitize NAME SECONDS COMMAND...
sanitize() {
  local name=sanitize_$1 limit=$2
  shift 2
  if [ "$device" = cpu ]; then
    skip "$name" "dry run"
  elif [ -z "$sanitizer" ]; then
    skip "$name" "this machine has no compute-sanitizer"
  else
    stage "$name" "$limit" "$@"
  fi
}
check="$sanitizer --target-processes all --error-exitcode 9 --tool"
races="$check racecheck"
# Libraries ask for what a driver or a card may lack and go on without it; what we ask for, we check ourselves.
memory="$check memcheck --report-api-errors no"
# Kernels are checked as they are loaded: all of NCCL's and cuBLASLt's at once would take longer than there is time for.
export CUDA_MODULE_LOADING=LAZY
# shellcheck disable=SC2086
{
  sanitize sixteen_bit 45 "$bundle/run" $memory cuda_sixteen_bit_test
  sanitize gpt 60 "$bundle/run" $memory cuda_gpt_test
  sanitize resnet 60 "$bundle/run" $memory cuda_resnet_test
  sanitize nccl 60 "$bundle/run" mpirun -np 2 "$bundle/tests/comm/one_card.sh" $memory nccl_gpt
  sanitize races 90 "$bundle/run" $races cuda_sixteen_bit_test
  sanitize conformance 120 "$bundle/run" $memory cuda_conformance_test --gtest_filter="$small"
  sanitize conformance_races 120 "$bundle/run" $races cuda_conformance_test --gtest_filter="$own"
}

if [ ! -s "$stages" ]; then
  echo "gpu_gate.sh: no stage matches --only '$only'" >&2
  exit 2
fi
dry_run=
[ "$device" = cuda ] || dry_run=--dry-run
# shellcheck disable=SC2086
"$python" "$bundle/tests/bench/gate_report.py" $dry_run "$results" || exit 1
# A test that was skipped on a card has shown nothing; in a dry run it never can.
awk -F'\t' -v device="$device" '
  $2 == "0" { played = 1 }
  $2 != "0" && ($2 !~ /^skipped/ || device != "cpu") { failed = 1 }
  END { exit failed || !played }' "$stages" || { echo "gpu_gate.sh: not shown: see $stages" >&2; exit 1; }
