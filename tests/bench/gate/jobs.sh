# Shared by several parts: models to train, tiny ones in a dry run, and checks of their output.

gpt_shape() {
  case $device:$1 in
    cuda:124m) echo --layers 12 --hidden 768 --heads 12 --vocab 50304 --context 1024 --micro-batch 8 ;;
    cuda:350m) echo --layers 24 --hidden 1024 --heads 16 --vocab 50304 --context 1024 --micro-batch 8 ;;
    cuda:short) echo --layers 12 --hidden 768 --heads 12 --vocab 50257 --context 128 --micro-batch 2 ;;
    *) echo --layers 2 --hidden 64 --heads 2 --vocab 100 --context 32 --micro-batch 2 ;;
  esac
}
resnet_shape() {
  case $device in
    cuda) echo --model resnet50 --pixels 224 --micro-batch 256 ;;
    *) echo --model resnet18 --pixels 32 --micro-batch 2 ;;
  esac
}
steps=15 warmup=5 peer_options="--device cuda --compile" threads=$(nproc)
[ "$device" = cuda ] || steps=2 warmup=1 peer_options="--device cpu" threads=1

# gpt SIZE PRECISION [OPTIONS]: trains it, on the device `on` where that is set, and prints one JSON object.
gpt() {
  # shellcheck disable=SC2046  # options
  "$bundle/run" gpt_train_bench $(gpt_shape "$1") --precision "$2" --device "${on:-$device}" --threads "$threads" \
    "${@:3}"
}
resnet() {
  # shellcheck disable=SC2046
  "$bundle/run" resnet_train_bench $(resnet_shape) --precision "$1" --device "$device" --threads "$threads" "${@:2}"
}
# The same models in PyTorch.
peer() { "$python" "$bundle/tests/bench/peers/$1" "${@:2}"; }
# shellcheck disable=SC2046
peer_gpt() { peer gpt_pytorch_cuda.py $(gpt_shape "$1") "${@:2}"; }
# shellcheck disable=SC2046
peer_resnet() { peer resnet_pytorch.py $(resnet_shape) "$@"; }
# in_shards COUNT COMMAND...: cases of GoogleTest shared by that many processes at once. Fails where one does.
in_shards() {
  local shard pid pids=() status=0
  for ((shard = 0; shard < $1; shard++)); do
    GTEST_TOTAL_SHARDS=$1 GTEST_SHARD_INDEX=$shard "${@:2}" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  return $status
}
check() { "$python" "$folder/check.py" "$@"; }

# beside RUN PRECISION: judges what the stages trireme_RUN and pytorch_RUN have printed, where the first has.
beside() {
  local report=("$logs/trireme_$1.out")
  if [ ! -s "${report[0]}" ]; then
    skip "beside_$1" "trireme_$1 printed nothing"
    return
  fi
  [ ! -s "$logs/pytorch_$1.out" ] || report+=("$logs/pytorch_$1.out")
  stage "beside_$1" 20 check beside --device "$device" --card "$card" --precision "$2" "${report[@]}"
}

# native_kernels LOG...: prints the problems that a library had no engine for. Fails where attention, a convolution or an
# fp8 product is among them on a Hopper card, where libraries serve all that the benchmarks train. Weight gradients that cuBLASLt
# computes instead, as products of gathered windows, and grouped queries on copied keys are none of them.
native_kernels() {
  local found text list= what='(cuDNN [0-9.]+ has no fitting engine for|this build has no cuDNN;|no library takes)'
  found=$({
    grep -hv '^{' "$@" | grep -oE "$what.*"
    grep -h '^{' "$@" | grep -oE "$what"'([^"\\]|\\.)*' # in JSON, where a quote is escaped
  } | grep -vE '(gathered windows run|keys and values are copied for each head of queries)$' | sort -u)
  while IFS= read -r text; do
    [ -n "$text" ] || continue
    quote "$text"
    list+=${list:+, }$quoted
  done <<<"$found"
  echo "{\"native\": [$list]}"
  [[ $architecture != sm_90* ]] || ! grep -qE 'attention|conv|e4m3|e5m2' <<<"$found"
}
# judge_kernels STAGE: of the logs that this stage has left.
judge_kernels() { stage "native_$1" 10 native_kernels "$logs/$1.out" "$logs/$1.err"; }

# The rows of card_table.py, and which have a peer in PyTorch.
table_rows=() table_peers=() scale=${TRIREME_GATE_SCALE:-1}
if [[ $part == table || $part == foresight ]]; then
  while read -r row peer; do
    table_rows+=("$row") table_peers+=("$peer")
  done < <("$python" "$bundle/tests/bench/card_table.py" list)
fi
card_table() {
  "$python" "$bundle/tests/bench/card_table.py" "$@" --program "$bundle/trireme" --device "$device" --scale "$scale"
}
# row NAME: trains its job.
row() { card_table ours "$1" --out "$work"; }
