#!/usr/bin/env bash
# Everything that only a GPU can show, in one command inside of an unpacked bundle (third_party/bundle.sh): tests,
# sanitizers, parity with the CPU, NCCL with 1, 2 and 4 ranks on one card, throughput and memory beside PyTorch.
#
#   trireme-bundle/tests/bench/gpu_gate.sh RESULTS_FOLDER
#
# Writes a log a stage and gate.json. Takes under 9 minutes on a Hopper card; a stage that would overrun is cut off and
# counts as failed. Exit code 0 when every stage passed.
# Environment: TRIREME_GATE_SECONDS  time for everything (default 520)
#              TRIREME_GATE_PYTHON   a python3 with torch (default: python3)
set -uo pipefail

[ $# = 1 ] || { sed -n 's/^# \{0,1\}//; 2,10p' "$0" >&2; exit 2; }
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
run() { "$bundle/run" "$@"; }
export -f run
export bundle

stage doctor 30 "$bundle/run" trireme doctor --json --no-measure

# Correctness first. Labels and limits come from the build.
export TRIREME_TEST_LOGS=$results/tests
stage tests 150 "$bundle/run-tests" gpu

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
stage same_state 60 bash -c same_state

# GPT-2 124M: the first steps on the CPU and on the GPU.
parity() {
  local shape="--layers 12 --hidden 768 --heads 12 --vocab 50257 --context 128 --micro-batch 2 --warmup 0 --steps 3"
  "$bundle/run" gpt_train_bench $shape --device cpu --threads "$(nproc)" >"$results/parity_cpu.json" &&
    "$bundle/run" gpt_train_bench $shape --device cuda >"$results/parity_cuda.json" &&
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
export python
stage parity 90 bash -c parity

# Throughput, ours and PyTorch's one after the other, so that both see the card in the same state.
declare -A shapes=(
  [124m]="--layers 12 --hidden 768 --heads 12 --vocab 50304 --context 1024 --micro-batch 8"
  [350m]="--layers 24 --hidden 1024 --heads 16 --vocab 50304 --context 1024 --micro-batch 8")
for size in 124m 350m; do
  # shellcheck disable=SC2086  # options
  stage "trireme_${size}_fp32" 60 "$bundle/run" gpt_train_bench ${shapes[$size]} --device cuda --steps 15 --warmup 5
  # shellcheck disable=SC2086
  stage "pytorch_${size}_fp32" 110 "$python" "$bundle/tests/bench/peers/gpt_pytorch_cuda.py" ${shapes[$size]} \
    --math fp32 --steps 15
done

# Own kernels under the sanitizers, with what time is left.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
if [ -n "$sanitizer" ]; then
  stage memcheck 100 "$bundle/run" "$sanitizer" --tool memcheck --error-exitcode 9 \
    "$bundle/bin/cuda_sixteen_bit_test"
  stage racecheck 100 "$bundle/run" "$sanitizer" --tool racecheck --error-exitcode 9 \
    "$bundle/bin/cuda_sixteen_bit_test" --gtest_filter='*LayerNorm*:*Attention*:*CrossEntropy*:*ColumnSum*:*Embedding*'
else
  printf 'memcheck\tskipped: no compute-sanitizer\t0\n' >>"$stages"
fi

"$python" - "$results" <<'PYTHON'
import json, pathlib, sys
results = pathlib.Path(sys.argv[1])
gate = {"stages": {}, "seconds": 0}
for line in (results / "stages.tsv").read_text().splitlines():
    name, status, seconds = line.split("\t")
    entry = {"ok": status == "0", "status": status, "seconds": int(seconds)}
    text = (results / (name + ".out")).read_text() if (results / (name + ".out")).exists() else ""
    try:
        entry["result"] = json.loads(text[text.index("{"):] if name == "doctor" else text.strip().splitlines()[-1])
    except (ValueError, IndexError):
        entry["last_line"] = (text.strip().splitlines() or [""])[-1]
    gate["stages"][name] = entry
    gate["seconds"] += int(seconds)
for size in ("124m", "350m"):
    ours, theirs = (gate["stages"].get(f"{who}_{size}_fp32", {}).get("result", {}) for who in ("trireme", "pytorch"))
    if ours and theirs:
        gate[f"speed_{size}_fp32"] = ours["tokens_per_s"] / theirs["tokens_per_s"]
        gate[f"memory_{size}_fp32"] = ours["peak_bytes"] / theirs["peak_bytes"]
(results / "gate.json").write_text(json.dumps(gate, indent=2) + "\n")
print(json.dumps({k: v for k, v in gate.items() if k != "stages"}))
PYTHON
awk -F'\t' '$2 != "0" && $2 !~ /^skipped/ { failed = 1 } END { exit failed }' "$stages"
