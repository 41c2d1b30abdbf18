# One mathematics by the command line: a small Llama in many layouts of ranks that share the card. Each layout resumes from
# the checkpoint of the one before it and trains two steps. Every step's state has the hash of a run on one rank.

steps_of_a_layout=2 steps_done=0
job=$logs/layouts.toml
printf '%s\n' '[model]' 'name = "llama"' 'layers = 4' 'hidden = 64' 'heads = 4' 'kv_heads = 2' 'ffn = 128' 'vocab = 256' \
  'seq_len = 32' 'tied = true' 'tensor_chunks = 2' '[data]' 'kind = "synthetic"' '[train]' 'steps = 2' 'global_batch = 8' \
  'micro_batch = 1' '[optimizer]' 'lr = 1e-3' 'schedule = "constant"' '[precision]' 'mode = "bf16"' '[checkpoint]' \
  'every = 2' '[log]' 'state_hash_every = 1' '[parallel]' "device = \"$device\"" "threads = 1" 'share_device = true' >"$job"

# layout_of STEPS OUT RANKS [KEY=VALUE...]
layout_of() {
  local steps=$1 out=$2 ranks=$3 key sets=()
  shift 3
  for key in "$@"; do sets+=(--set "parallel.$key"); done
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    "$bundle/run" mpirun -np "$ranks" trireme train "$job" --out "$out" --set "train.steps=$steps" "${sets[@]}" >&2
}
continued() { layout_of "$@" && check layout "$work/one_rank/metrics.jsonl" "$2/metrics.jsonl"; }
# layout NAME RANKS [KEY=VALUE...]
layout() {
  steps_done=$((steps_done + steps_of_a_layout))
  stage "layout_$1" 60 continued $steps_done "$work/layouts" "${@:2}"
}

stage one_rank 60 layout_of 30 "$work/one_rank" 1
layout one 1
layout data 2
layout zero_1 2 zero=1
layout zero_2 4 zero=2
layout zero_3 2 zero=3 recompute_every=1
layout tensor 2 tensor=2
layout sequence 4 tensor=2 sequence=true zero=1
layout gpipe 2 pipeline=2 schedule='"gpipe"'
layout one_forward_one_backward 4 pipeline=2 schedule='"1f1b"' zero=1
layout interleaved 2 pipeline=2 schedule='"interleaved"' chunks=2 recompute_every=2
layout zero_bubble 4 pipeline=2 schedule='"zb-h1"' zero=2
layout all_axes 4 pipeline=2 tensor=2 sequence=true
layout zero_3_of_4 4 zero=3
layout recorded 1 cuda_graph=true
layout recorded_data 2 cuda_graph=true zero=1
