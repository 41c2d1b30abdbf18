// A low-rank adapter of a linear layer, LoRA (Hu et al. 2021): y = x W^T + (alpha / rank) (x A^T) B^T, with W
// frozen and A, B trained.
//
// [Note: adapters] Blocks need no code for adapters. Block::add_adapter declares A and B behind the
// parameters of the block. ops::linear queries its parameter resolver for the adapter of a weight. So every
// block that computes with ops::linear can be adapted. Sharding, checkpoints and memory predictions treat A
// and B like any other parameter. Names follow PEFT: "attention.qkv.weight" gets
// "attention.qkv.lora_A.weight" and "attention.qkv.lora_B.weight". B starts at zero, so that the adapted
// model starts equal to the base model. A is drawn as PyTorch initialises a linear layer (uniform within 1 /
// sqrt(K), Kaiming with a = sqrt(5)), as in PEFT.
//
// For a weight in tensor chunks, one factor is cut like the weight, and all chunks read the other one. A
// column-parallel layer has its B in chunks, and each chunk computes x A^T. A row-parallel layer has its A in
// chunks, and each chunk computes its part of x A^T and the product of that part with the whole B, so the sum
// over the chunks of the layer includes the adapter. The gradient of the shared factor is a sum over chunks
// (runtime/ops/shared_gradients.h): one more small sum over the tensor ranks for each sum of the block.
// Rejected: x A^T of a row-parallel layer as a sum over chunks. It makes the gradient of B local, but its
// sum is of the micro-batch's rows times the rank, in forward, and sequence shards would have to cut it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/parameter_slice.h"

namespace trireme {

/// A block's handle of one of its own parameters.
struct ParamRef {
  int index = -1;
  bool defined() const { return index >= 0; }
};

struct Adapter {
  ParamRef a, b;       // [rank, K] and [N, rank]; one of them cut for the weight of a chunk
  float scale = 1.0f;  // alpha / rank
};

inline constexpr std::string_view kAdapterA = ".lora_A.weight", kAdapterB = ".lora_B.weight";

/// True for the names of adapter matrices.
inline bool is_adapter_name(std::string_view name) {
  return name.ends_with(kAdapterA) || name.ends_with(kAdapterB);
}

/// "attention.qkv" of the weight "attention.qkv.weight", "in_proj" of "in_proj_weight".
inline std::string layer_of_weight(std::string_view weight) {
  constexpr std::string_view kWeight = "weight";
  if (weight.ends_with(kWeight)) weight.remove_suffix(kWeight.size());
  if (weight.ends_with('.') || weight.ends_with('_')) weight.remove_suffix(1);
  return std::string(weight);
}

}  // namespace trireme
