# The first facts about a card: its health, the kernels that serve the benchmarks, the time of a step.

jobs=$bundle/tests/bench tiny_gpt= tiny_resnet= tiny_llama=
if [ "$device" = cpu ]; then
  tiny="--set parallel.device=cpu --set train.global_batch=1 --set train.micro_batch=1"
  tiny_gpt="$tiny --set model.seq_len=32"
  tiny_llama="$tiny_gpt --set model.hidden=256 --set model.ffn=256 --set model.vocab=256"
  tiny_resnet="$tiny --set model.name=resnet18 --set data.image_size=32"
fi

# engines SECONDS JOB PRECISION [OPTIONS]: a line a call of a step.
engines() {
  local name=engines_$2_$3
  stage "$name" "$1" "$bundle/run" trireme doctor --json --engines "$jobs/$2.toml" --set "precision.mode=$3" "${@:4}"
  judge_kernels "$name"
}
# start LAZY|EAGER: a tiny job with the modules of the libraries loaded as they are needed or at once, and the most
# memory of the card that is in use meanwhile.
start() {
  local watcher used=$logs/memory_$1.txt
  nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -lms 100 >"$used" 2>/dev/null &
  watcher=$!
  CUDA_MODULE_LOADING=$1 gpt tiny bf16 --steps 1 --warmup 0 >"$logs/start_$1.json"
  set -- $? "$(sort -n "$used" | tail -n 1)"
  kill $watcher 2>/dev/null
  echo "{\"card_mib\": ${2:-null}}"
  return "$1"
}

# shellcheck disable=SC2086  # options
{
  stage rates 90 "$bundle/run" trireme doctor --json
  engines 60 gpt2_124m bf16 $tiny_gpt
  engines 90 resnet50 fp16 $tiny_resnet
  stage step_recorded 40 gpt 124m bf16 --steps 10 --warmup 3 --state-hash --cuda-graph
  stage step_enqueued 40 gpt 124m bf16 --steps 10 --warmup 3 --state-hash
  stage step_bits 10 check same_bits "$logs"/step_{recorded,enqueued}.out
  stage start_LAZY 30 start LAZY
  stage start_EAGER 30 start EAGER
  engines 40 llama_grouped bf16 $tiny_llama
  engines 40 gpt2_124m fp8 $tiny_gpt
  engines 40 gpt2_124m fp16 $tiny_gpt
  engines 60 resnet50 bf16 $tiny_resnet
  engines 40 gpt2_124m tf32 $tiny_gpt
  engines 40 gpt2_124m fp32 $tiny_gpt
}
