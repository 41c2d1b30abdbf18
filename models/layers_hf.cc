#include "models/layers_hf.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {
namespace {

constexpr const char* kFullType = "full_attention";
constexpr const char* kWindowType = "sliding_attention";

/// The kinds of the layers, as the letters of LlamaConfig::layer_pattern, without repetition.
std::string shortest_pattern(const std::string& letters) {
  for (std::size_t period = 1; period < letters.size(); ++period) {
    bool repeats = true;
    for (std::size_t i = period; i < letters.size() && repeats; ++i)
      repeats = letters[i] == letters[i - period];
    if (repeats) return letters.substr(0, period);
  }
  return letters;
}

std::string read_layer_types(const HfConfig& config, std::int64_t layers) {
  const std::vector<std::string> types = config.texts("layer_types");
  if (std::ssize(types) != layers) {
    config.refuse_contradiction("layer_types", "num_hidden_layers");
  }
  std::string letters;
  for (const std::string& type : types) {
    if (type != kFullType && type != kWindowType) {
      config.refuse("layer_types", fmt::format("\"{}\" and \"{}\"", kFullType, kWindowType));
    }
    letters += type == kFullType ? 'f' : 'w';
  }
  return letters;
}

/// The letters of the layers that follow from other keys than layer_types.
std::string default_letters(const HfConfig& config, const LayersHfDefaults& defaults, std::int64_t layers) {
  const auto length = static_cast<std::size_t>(layers);
  if (defaults.windows == HfWindows::kNone) return std::string(length, 'f');
  std::string letters(length, 'w');
  if (defaults.windows == HfWindows::kFrom) {
    constexpr std::int64_t kFirstWindow = 28;
    const std::int64_t full =
        config.has("max_window_layers") ? config.index("max_window_layers") : kFirstWindow;
    std::fill_n(letters.begin(), std::min(layers, full), 'f');
  } else if (defaults.windows == HfWindows::kPattern) {
    const std::int64_t every = config.count("sliding_window_pattern", defaults.full_every);
    for (std::int64_t i = every - 1; i < layers; i += every) letters[static_cast<std::size_t>(i)] = 'f';
  }
  return letters;
}

/// The window in tokens of layers that have one; 0: no layer has.
std::int64_t read_window(const HfConfig& config, const LayersHfDefaults& defaults) {
  if (defaults.windows == HfWindows::kNone || defaults.windows == HfWindows::kFrom) {
    const bool uses = config.flag("use_sliding_window", false);
    if (defaults.windows == HfWindows::kNone && uses) config.refuse("use_sliding_window", "false");
    if (!uses) return 0;
  }
  return config.is_null("sliding_window") ? 0 : config.count("sliding_window", defaults.window);
}

void read_windows(const HfConfig& config, const LayersHfDefaults& defaults, LlamaConfig& llama) {
  const std::int64_t window = read_window(config, defaults);
  const bool is_listed = config.has("layer_types");
  std::string letters = is_listed    ? read_layer_types(config, llama.layers)
                        : window > 0 ? default_letters(config, defaults, llama.layers)
                                     : std::string(static_cast<std::size_t>(llama.layers), 'f');
  const bool has_windows = letters.find('w') != std::string::npos;
  if (is_listed && has_windows && window == 0) config.refuse_contradiction("layer_types", "sliding_window");
  if (is_listed && defaults.windows == HfWindows::kAll && window > 0 &&
      letters.find('f') != std::string::npos) {
    config.refuse_contradiction("layer_types", "sliding_window");
  }
  if (!has_windows) return;
  llama.window = window;
  llama.layer_pattern = shortest_pattern(letters);
  if (llama.layer_pattern == "w") llama.layer_pattern.clear();
}

/// Layers without rotary positions.
void read_unrotated_layers(const HfConfig& config, std::int64_t otherwise, LlamaConfig& llama) {
  std::string letters;
  if (config.has("no_rope_layers")) {
    for (const std::int64_t rotates : config.indices("no_rope_layers")) letters += rotates != 0 ? 'f' : 'n';
    if (std::ssize(letters) != llama.layers) {
      config.refuse_contradiction("no_rope_layers", "num_hidden_layers");
    }
  } else {
    const std::int64_t every = config.count("no_rope_layer_interval", otherwise);
    for (std::int64_t i = 1; i <= llama.layers; ++i) letters += i % every == 0 ? 'n' : 'f';
  }
  if (letters.find('n') != std::string::npos) llama.layer_pattern = shortest_pattern(letters);
}

}  // namespace

void read_hf_layers(const HfConfig& config, const LayersHfDefaults& defaults, LlamaConfig& llama) {
  read_windows(config, defaults, llama);
  if (defaults.unrotated_every > 0) read_unrotated_layers(config, defaults.unrotated_every, llama);
}

void write_hf_layers(const LlamaConfig& config, const LayersHfDefaults& defaults,
                     nlohmann::ordered_json& json) {
  if (defaults.unrotated_every > 0) {
    std::vector<int> rotates;
    for (std::int64_t i = 0; i < config.layers; ++i) {
      rotates.push_back(config.kind_of_layer(i) == LayerKind::kFullWithoutRope ? 0 : 1);
    }
    json["no_rope_layers"] = rotates;
    json["use_sliding_window"] = false;
  }
  if (defaults.windows == HfWindows::kAll) json["sliding_window"] = config.window;
  const bool lists =
      defaults.windows == HfWindows::kPattern || (defaults.windows == HfWindows::kFrom && config.window > 0);
  if (defaults.windows == HfWindows::kFrom) json["use_sliding_window"] = config.window > 0;
  if (!lists) return;
  std::vector<std::string> types;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    types.emplace_back(config.kind_of_layer(i) == LayerKind::kWindow ? kWindowType : kFullType);
  }
  json["layer_types"] = types;
  json["sliding_window"] = config.window > 0 ? config.window : defaults.window;
}

}  // namespace trireme
