# ResNet-50 beside PyTorch, as bench-gpt.sh; both upload a batch of fp32 images a step.

# train PRECISION
train() {
  stage "trireme_resnet50_$1" 60 resnet "$1" --cuda-graph --steps "$steps" --warmup "$warmup"
  judge_kernels "trireme_resnet50_$1"
}

for precision in fp16 bf16; do
  train $precision
  # shellcheck disable=SC2086  # options
  stage "pytorch_resnet50_$precision" 150 peer_resnet $peer_options --math $precision --steps "$steps" \
    --warmup "$warmup"
  beside "resnet50_$precision" $precision
done
for precision in tf32 fp32; do
  train $precision
  beside "resnet50_$precision" $precision
done
