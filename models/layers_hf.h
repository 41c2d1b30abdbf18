// The kinds of a decoder's layers in config.json of Hugging Face's transformers: sliding_window, layer_types
// and no_rope_layers, and the older keys in place of layer_types.
#pragma once

#include "models/llama.h"
#include "runtime/checkpoint/hf_config.h"

namespace trireme {

/// The windows of a model_type.
enum class HfWindows : std::uint8_t {
  kNone,
  kAll,      // sliding_window, for all layers
  kFrom,     // use_sliding_window, and max_window_layers or layer_types
  kPattern,  // layer_types, or a full layer after every few
};

/// The defaults of a model_type.
struct LayersHfDefaults {
  HfWindows windows = HfWindows::kNone;
  std::int64_t window = 0;           // of a missing sliding_window
  std::int64_t full_every = 0;       // kPattern: the last of this many layers is full
  std::int64_t unrotated_every = 0;  // the last of this many layers has no rotary positions; 0: all have
};

/// Sets window and layer_pattern of `llama`, which has its layers. Throws Error(kUnsupported) naming the key
/// of a value that build_llama() does not support, and Error(kInvalidInput) naming keys that contradict each
/// other.
void read_hf_layers(const HfConfig& config, const LayersHfDefaults& defaults, LlamaConfig& llama);

/// Adds the keys that read_hf_layers() reads.
void write_hf_layers(const LlamaConfig& config, const LayersHfDefaults& defaults,
                     nlohmann::ordered_json& json);

}  // namespace trireme
