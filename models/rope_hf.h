// The rotary settings of decoders in config.json of Hugging Face's transformers: rope_parameters (version 5),
// or rope_theta and rope_scaling (older).
#pragma once

#include "models/llama.h"
#include "runtime/checkpoint/hf_config.h"

namespace trireme {

/// The defaults of a model_type.
struct RopeHfDefaults {
  double theta = 10000.0;
  /// Base of layers with a window. Above 0: the type has rotary settings by kind of layer. 0: it has one for
  /// all layers.
  double local_theta = 0.0;
};

/// Sets rope_theta, rope_scaling and rope_local_theta of `llama`. Throws Error(kUnsupported) naming the key
/// of a value that build_llama() does not support, and Error(kInvalidInput) naming keys that contradict each
/// other.
void read_hf_rope(const HfConfig& config, const RopeHfDefaults& defaults, LlamaConfig& llama);

/// Adds the rotary settings of `llama` to a config.json. `by_layer` is true for types with settings by kind
/// of layer.
void write_hf_rope(const LlamaConfig& llama, bool by_layer, nlohmann::ordered_json& config);

}  // namespace trireme
