# GPT-2 beside PyTorch, one after the other, so that both see the card in the same state. What matters most comes first.

# `trireme train` on the benchmark's model: its metrics and its progress line hold the benchmark's rate.
train() {
  local tiny=()
  [ "$device" = cuda ] || tiny=(--set train.global_batch=2 --set train.micro_batch=2 --set model.seq_len=32 --set
    'model.size=""' --set model.layers=2 --set model.hidden=64 --set model.heads=2 --set model.vocab=100)
  "$bundle/run" trireme train "$bundle/tests/bench/gpt2_124m.toml" --out "$work/train" --set parallel.cuda_graph=true \
    --set "parallel.device=\"$device\"" --set log.every=10 "${tiny[@]}" >"$logs/train_progress.txt" &&
    cat "$logs/train_progress.txt" >&2 &&
    check train --device "$device" "$logs/trireme_124m_bf16.out" "$work/train/metrics.jsonl" "$logs/train_progress.txt"
}

# compare SIZE PRECISION
compare() {
  stage "trireme_$1_$2" 45 gpt "$1" "$2" --cuda-graph --steps "$steps" --warmup "$warmup"
  judge_kernels "trireme_$1_$2"
  # shellcheck disable=SC2086  # options
  stage "pytorch_$1_$2" 90 peer_gpt "$1" $peer_options --math "$2" --steps "$steps"
  beside "$1_$2" "$2"
}
# kernel_share NAME BAR [OPTIONS]: the share of a step in which no kernel runs, which has to be less than BAR.
kernel_share() {
  local trace=$logs/trace_$1 bar=$2 tracer=$bundle/bin/libkernel_trace.so
  shift 2
  CUDA_INJECTION64_PATH=$tracer TRIREME_KERNEL_TRACE=$trace.tsv \
    gpt 124m bf16 --steps 20 --warmup 5 "$@" >"$trace.json" &&
    "$python" "$folder/kernel_share.py" --below "$bar" "$trace.tsv"
}
# Without CUPTI, which is one of NVIDIA's libraries, nsys has to do.
kernel_share_nsys() {
  local trace=$logs/trace_$1 bar=$2
  shift 2
  # shellcheck disable=SC2046
  nsys profile --trace=cuda --sample=none --cpuctxsw=none --cuda-graph-trace=node --force-overwrite=true -o "$trace" \
    "$bundle/run" gpt_train_bench $(gpt_shape 124m) --precision bf16 --device cuda --steps 20 --warmup 5 "$@" \
    >"$trace.json" && nsys export --type=sqlite --force-overwrite=true -o "$trace.sqlite" "$trace.nsys-rep" >&2 &&
    "$python" "$folder/kernel_share.py" --below "$bar" "$trace.sqlite"
}

# tuned PRECISION: the same with measured choices among products, beside the heuristics'.
tuned() {
  stage "tuned_124m_$1" 60 gpt 124m "$1" --cuda-graph --tune-products --steps "$steps" --warmup "$warmup"
  if [ -s "$logs/trireme_124m_$1.out" ] && [ -s "$logs/tuned_124m_$1.out" ]; then
    stage "tuned_beside_124m_$1" 20 check tuned "$logs/trireme_124m_$1.out" "$logs/tuned_124m_$1.out"
  else
    skip "tuned_beside_124m_$1" "one of them printed nothing"
  fi
}

for precision in bf16 fp32 tf32 fp16; do compare 124m $precision; done
tuned bf16
stage train_124m_bf16 60 train

share=kernel_share
if [ ! -e "$bundle/bin/libkernel_trace.so" ] || "$bundle/run" ldd "$bundle/bin/libkernel_trace.so" | grep -q 'not found'
then
  share=kernel_share_nsys
fi
for how in recorded enqueued; do
  if [ "$device" = cpu ]; then
    skip "kernel_share_$how" "dry run"
  elif [ $share = kernel_share_nsys ] && ! command -v nsys >/dev/null; then
    skip "kernel_share_$how" "this machine has neither CUPTI nor nsys"
  elif [ $how = recorded ]; then
    stage kernel_share_recorded 40 $share recorded 0.03 --cuda-graph
  else
    stage kernel_share_enqueued 40 $share enqueued 1
  fi
done
for precision in bf16 tf32; do compare 350m $precision; done
