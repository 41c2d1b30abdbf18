// A low-rank adapter of a linear layer, LoRA (Hu et al. 2021): y = x W^T + (alpha / rank) (x A^T) B^T, with W
// frozen and A, B trained.
//
// [Note: adapters] Blocks do not know of adapters. Block::add_adapter declares A and B behind the parameters
// of the block, and ops::linear asks the resolver of its parameters whether a weight has one. So every block
// that computes with ops::linear can be adapted, and A and B are parameters like any other to what shards,
// saves and prices them. Names are PEFT's: "attention.qkv.weight" gets "attention.qkv.lora_A.weight" and
// "attention.qkv.lora_B.weight". At the start B is zero, so that the adapted model is the model; A is drawn
// as PyTorch draws a linear layer (uniform within 1 / sqrt(K), Kaiming with a = sqrt(5)), as PEFT does.
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
  ParamRef a, b;       // [rank, K] and [N, rank]
  float scale = 1.0f;  // alpha / rank
};

inline constexpr std::string_view kAdapterA = ".lora_A.weight", kAdapterB = ".lora_B.weight";

/// True for names of adapters' matrices.
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
