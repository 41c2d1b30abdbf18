#!/usr/bin/env bash
# Everything that only a GPU can show, in one command inside of an unpacked bundle (third_party/bundle.sh): tests,
# sanitizers, parity with the CPU, NCCL with 1, 2 and 4 ranks on one card, throughput and memory beside PyTorch.
#
#   trireme-bundle/tests/bench/gpu_gate.sh [--dry-run] RESULTS_FOLDER
#
# --dry-run tries everything that needs no GPU: the same stages, programs and peers on the CPU in tiny shapes.
# Writes a log a stage and gate.json. Takes under 9 minutes on a Hopper card; a stage that would overrun is cut off and
# counts as failed. Exit code 0 when every stage passed.
# Environment: TRIREME_GATE_SECONDS  time for everything (default 520)
#              TRIREME_GATE_PYTHON   a python3 with torch (default: python3)
set -uo pipefail

device=cuda
if [ "${1:-}" = --dry-run ]; then
  device=cpu
  shift
fi
if [ $# != 1 ] || [[ $1 == -* ]]; then
  sed -n 's/^# \{0,1\}//; 2,13p' "$0" >&2
  exit 2
fi
mkdir -p "$1"
results=$(cd "$1" && pwd)
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ -x "$bundle/run" ] || { echo "gpu_gate.sh: $bundle is no unpacked bundle" >&2; exit 2; }
python=${TRIREME_GATE_PYTHON:-python3}
total=${TRIREME_GATE_SECONDS:-520}
stages=$results/stages.tsv
: >"$stages"

# stage NAME SECONDS COMMAND...: standard output to NAME.out, errors to NAME.err, the outcome to stages.tsv.
stage() {
  local name=$1 limit=$2 started=$SECONDS status
  shift 2
  [ $((total - SECONDS)) -lt "$limit" ] && limit=$((total - SECONDS))
  if [ "$limit" -lt 5 ]; then
    status=124
    echo "no time left" >"$results/$name.err"
  else
    timeout "$limit" "$@" >"$results/$name.out" 2>"$results/$name.err" </dev/null
    status=$?
  fi
  printf '%s\t%s\t%s\n' "$name" "$status" $((SECONDS - started)) >>"$stages"
  printf '%-28s %s (%s s)\n' "$name" "$([ $status = 0 ] && echo ok || echo "FAILED, status $status")" $((SECONDS - started))
  [ $status = 0 ] || tail -n 6 "$results/$name.out" "$results/$name.err"
}
# skip NAME REASON: a stage that this build or machine cannot play.
skip() {
  printf '%s\tskipped: %s\t0\n' "$1" "$2" >>"$stages"
  printf '%-28s skipped: %s\n' "$1" "$2"
}
export bundle device

stage doctor 30 "$bundle/run" trireme doctor --json --no-measure

# Correctness first. Labels and limits come from the build.
export TRIREME_TEST_LOGS=$results/tests
if [ "$device" = cuda ]; then stage tests 150 "$bundle/run-tests" gpu; else skip tests "dry run"; fi

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

# GPT-2 124M: the first steps on the CPU and on the GPU.
parity_shape="--layers 12 --hidden 768 --heads 12 --vocab 50257 --context 128 --micro-batch 2"
[ "$device" = cuda ] || parity_shape="--layers 2 --hidden 64 --heads 2 --vocab 100 --context 32 --micro-batch 2"
parity() {
  local shape="$parity_shape --warmup 0 --steps 3"
  "$bundle/run" gpt_train_bench $shape --device cpu --threads "$(nproc)" >"$results/parity_cpu.json" &&
    "$bundle/run" gpt_train_bench $shape --device "$device" >"$results/parity_cuda.json" &&
    "$python" -c '
import json, sys
cpu, cuda = (json.load(open(f)) for f in sys.argv[1:])
error = abs(cpu["loss"] - cuda["loss"]) / cpu["loss"]
print(json.dumps({"loss_cpu": cpu["loss"], "loss_cuda": cuda["loss"], "relative_error": error,
                  "peak_bytes_cpu": cpu["peak_bytes"], "peak_bytes_cuda": cuda["peak_bytes"]}))
sys.exit(not (error < 1e-4 and cpu["peak_bytes"] == cuda["peak_bytes"]))
' "$results/parity_cpu.json" "$results/parity_cuda.json"
}
export -f parity
export python parity_shape
stage parity 90 bash -c parity

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
precisions=$("$bundle/run" gpt_train_bench --help | grep -o -e '--precision')
for run in 124m:bf16 124m:tf32 124m:fp32 350m:bf16 350m:tf32 124m:fp16; do
  size=${run%:*} mode=${run#*:}
  # fp32 needs no option, so that builds without the others are measured too.
  precision="--precision $mode"
  [ "$mode" != fp32 ] || precision=
  if [ -n "$precision" ] && [ -z "$precisions" ]; then
    skip "trireme_${size}_$mode" "not in this build"
  else
    # shellcheck disable=SC2086  # options
    stage "trireme_${size}_$mode" 45 "$bundle/run" gpt_train_bench ${shapes[$size]} $precision --device "$device" \
      --cuda-graph --steps "$steps" --warmup 5
  fi
  # shellcheck disable=SC2086
  stage "pytorch_${size}_$mode" 90 "$python" "$bundle/tests/bench/peers/gpt_pytorch_cuda.py" ${shapes[$size]} \
    $peer_options --math "$mode" --steps "$steps"
done

# What recording a step saves: the same run, every kernel enqueued by the host.
# shellcheck disable=SC2086
stage enqueued_124m_fp32 45 "$bundle/run" gpt_train_bench ${shapes[124m]} --device "$device" --steps "$steps" --warmup 5

# Own kernels under the sanitizers, with what time is left.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ "$device" = cpu ]; then
  skip memcheck "dry run"
elif [ -n "$sanitizer" ]; then
  stage memcheck 100 "$bundle/run" "$sanitizer" --tool memcheck --error-exitcode 9 \
    "$bundle/bin/cuda_sixteen_bit_test"
  stage racecheck 100 "$bundle/run" "$sanitizer" --tool racecheck --error-exitcode 9 \
    "$bundle/bin/cuda_sixteen_bit_test" --gtest_filter='*LayerNorm*:*Attention*:*CrossEntropy*:*ColumnSum*:*Embedding*'
else
  skip memcheck "no compute-sanitizer"
fi

"$python" "$bundle/tests/bench/gate_report.py" "$results" || exit 1
awk -F'\t' '$2 != "0" && $2 !~ /^skipped/ { failed = 1 } END { exit failed }' "$stages"
