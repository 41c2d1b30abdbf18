# One mathematics: the same state on 1, 2 and 4 ranks of the card, twice, and from a recorded step. The CPU's losses.

one_card="$bundle/tests/comm/one_card.sh"
same_state() {
  local ranks states=$logs/nccl_gpt.jsonl
  for ranks in 1 2 4; do
    "$bundle/run" mpirun -np "$ranks" "$one_card" nccl_gpt || return 1
  done | tee "$states"
  [ "$(wc -l <"$states")" = 3 ] && [ "$(sort -u "$states" | wc -l)" = 1 ]
}
# Every one of the first steps on the CPU and on the GPU, and the memory that was predicted.
parity() {
  on=cpu gpt short fp32 --warmup 0 --steps 5 >"$logs/parity_cpu.json" &&
    gpt short fp32 --warmup 0 --steps 5 >"$logs/parity_cuda.json" &&
    check parity "$logs/parity_cpu.json" "$logs/parity_cuda.json"
}
# same_bits PRECISION: the same bits twice, and from a recorded step.
same_bits() {
  local options=(--warmup 0 --steps 6 --state-hash) report=$logs/bits_$1
  gpt short "$1" "${options[@]}" >"${report}_once.json" &&
    gpt short "$1" "${options[@]}" >"${report}_again.json" &&
    gpt short "$1" "${options[@]}" --cuda-graph >"${report}_recorded.json" &&
    check same_bits "$report"_{once,again,recorded}.json
}
# The command line, on the card that it finds; its summary.
train() {
  printf '%s\n' '[model]' 'name = "gpt"' 'layers = 2' 'hidden = 64' 'heads = 2' 'vocab = 100' 'seq_len = 64' \
    '[data]' 'kind = "synthetic"' '[train]' 'steps = 3' 'global_batch = 4' 'micro_batch = 2' \
    '[optimizer]' 'lr = 1e-3' '[precision]' 'mode = "bf16"' '[parallel]' "device = \"$device\"" >"$logs/train.toml" &&
    "$bundle/run" trireme train "$logs/train.toml" --out "$work/train" >&2 && cat "$work/train/summary.json"
}

# The same of grouped queries, whose gradients of keys are sums over the heads of a group: twice, by the command line.
grouped() {
  local run states=$logs/grouped_states.txt
  printf '%s\n' '[model]' 'name = "llama"' 'layers = 2' 'hidden = 128' 'heads = 8' 'kv_heads = 2' 'ffn = 128' \
    'vocab = 100' 'seq_len = 256' '[data]' 'kind = "synthetic"' '[train]' 'steps = 3' 'global_batch = 4' \
    'micro_batch = 2' '[optimizer]' 'lr = 1e-3' '[precision]' 'mode = "bf16"' '[parallel]' "device = \"$device\"" \
    >"$logs/grouped.toml"
  for run in once again; do
    "$bundle/run" trireme train "$logs/grouped.toml" --out "$work/grouped_$run" >&2 || return 1
    grep -o '"state_hash": *"[^"]*"' "$work/grouped_$run/summary.json" || return 1
  done >"$states"
  cat "$work/grouped_once/summary.json"
  [ "$(sort -u "$states" | wc -l)" = 1 ]
}

for precision in bf16 fp32 fp16 fp8 tf32; do stage "same_bits_$precision" 45 same_bits $precision; done
stage parity 60 parity
stage train 40 train
stage grouped 60 grouped
if [ "$device" = cuda ]; then
  stage same_state 150 same_state
  stage pipeline_state 200 "$bundle/run" mpirun -np 4 "$one_card" nccl_pipeline
  # Last, as it may hang: a graph need not run its branches at once.
  stage recorded_pipeline 60 "$bundle/run" mpirun -np 4 "$one_card" nccl_pipeline --recorded
else
  skip same_state "dry run"
  skip pipeline_state "dry run"
  skip recorded_pipeline "dry run"
fi
