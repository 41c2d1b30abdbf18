#include "models/rope_hf.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

using ops::RopeScaling;

constexpr const char* kFullLayers = "full_attention";
constexpr const char* kWindowLayers = "sliding_attention";
constexpr const char* kKinds = "\"default\", \"linear\", \"llama3\" and \"yarn\"";

struct Rope {
  double theta = 0.0;
  RopeScaling scaling;

  bool operator==(const Rope&) const = default;
};

double required(const HfConfig& rope, const std::string& type, const char* key) {
  if (!rope.has(key)) rope.refuse(key, fmt::format("\"{}\" with a number there", type));
  return rope.positive(key, 1.0);
}

/// YaRN's factor of queries and keys as transformers derives it; 0 for the default.
double read_attention_factor(const HfConfig& rope, double factor) {
  if (rope.has("attention_factor")) return rope.positive("attention_factor", 1.0);
  if (!rope.has("mscale") || !rope.has("mscale_all_dim")) return 0.0;
  const auto scale = [&](const char* key) { return 0.1 * rope.positive(key, 1.0) * std::log(factor) + 1.0; };
  return factor > 1 ? scale("mscale") / scale("mscale_all_dim") : 1.0;
}

RopeScaling read_scaling(const HfConfig& config, const HfConfig& rope, const std::string& type_key,
                         const std::string& type) {
  RopeScaling scaling{.factor = required(rope, type, "factor")};
  if (scaling.factor < 1) rope.refuse("factor", "1 and more");
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
    return scaling;
  }
  if (type == "yarn") {
    scaling.kind = RopeScaling::Kind::kYarn;
    scaling.low_freq_factor = rope.positive("beta_slow", 1.0);
    scaling.high_freq_factor = rope.positive("beta_fast", 32.0);
    scaling.attention_factor = read_attention_factor(rope, scaling.factor);
    rope.expect("truncate", true);
  } else if (type == "llama3") {
    scaling.low_freq_factor = required(rope, type, "low_freq_factor");
    scaling.high_freq_factor = required(rope, type, "high_freq_factor");
  } else {
    rope.refuse(type_key, kKinds);
  }
  scaling.original_context = rope.count("original_max_position_embeddings");
  config.expect("original_max_position_embeddings", scaling.original_context);
  return scaling;
}

/// Reads an object with rotary settings. Without a base there, the base is `theta`.
Rope read_object(const HfConfig& config, const HfConfig& rope, const std::string& form, double theta) {
  Rope read{.theta = rope.positive("rope_theta", theta), .scaling = {}};
  rope.expect("partial_rotary_factor", 1.0);
  if (rope.has("rope_type") && rope.has("type") && rope.text("type", "") != rope.text("rope_type", "")) {
    config.refuse_contradiction(form, "itself in type and rope_type");
  }
  const std::string type_key = !rope.has("rope_type") && rope.has("type") ? "type" : "rope_type";
  const std::string type = rope.text(type_key, "default");
  if (type != "default") read.scaling = read_scaling(config, rope, type_key, type);
  return read;
}

/// Reads the object named `form`, and the base that older files have outside of it.
Rope read_form(const HfConfig& config, const std::string& form, double default_theta) {
  const HfConfig rope = config.object(form);
  const double outside = config.positive("rope_theta", default_theta);
  const Rope read = read_object(config, rope, form, outside);
  if (rope.has("rope_theta") && config.has("rope_theta") && outside != read.theta) {
    config.refuse_contradiction("rope_theta", form + ".rope_theta");
  }
  return read;
}

/// One of the objects of rope_parameters, or the older keys in its place.
Rope read_layers(const HfConfig& config, const char* kind, const char* theta_key, const char* scaling_key,
                 double default_theta) {
  const double outside = config.positive(theta_key, default_theta);
  Rope older{.theta = outside, .scaling = {}};
  if (scaling_key != nullptr) {
    older = read_object(config, config.object(scaling_key), scaling_key, outside);
  }
  const HfConfig all = config.object("rope_parameters");
  if (!all.has(kind)) return older;
  const Rope read = read_object(config, all.object(kind), fmt::format("rope_parameters.{}", kind), outside);
  if (config.has(theta_key) && read.theta != outside) {
    config.refuse_contradiction(theta_key, fmt::format("rope_parameters.{}.rope_theta", kind));
  }
  if (scaling_key != nullptr && config.has(scaling_key) && !(read == older)) {
    config.refuse_contradiction(scaling_key, fmt::format("rope_parameters.{}", kind));
  }
  return read;
}

nlohmann::ordered_json scaling_json(const RopeScaling& scaling) {
  if (scaling.factor == 1.0 && rope_attention_factor(scaling) == 1.0) return nullptr;
  switch (scaling.kind) {
    case RopeScaling::Kind::kLinear:
      return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case RopeScaling::Kind::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_freq_factor},
              {"high_freq_factor", scaling.high_freq_factor},
              {"original_max_position_embeddings", scaling.original_context}};
    case RopeScaling::Kind::kYarn:
      break;
  }
  nlohmann::ordered_json json{{"rope_type", "yarn"},
                              {"factor", scaling.factor},
                              {"beta_slow", scaling.low_freq_factor},
                              {"beta_fast", scaling.high_freq_factor},
                              {"original_max_position_embeddings", scaling.original_context}};
  if (scaling.attention_factor > 0) json["attention_factor"] = scaling.attention_factor;
  return json;
}

nlohmann::ordered_json object_json(double theta, const RopeScaling& scaling) {
  nlohmann::ordered_json json = scaling_json(scaling);
  if (json.is_null()) json = {{"rope_type", "default"}};
  json["rope_theta"] = theta;
  return json;
}

}  // namespace

void read_hf_rope(const HfConfig& config, const RopeHfDefaults& defaults, LlamaConfig& llama) {
  config.expect("partial_rotary_factor", 1.0);
  Rope rope;
  if (defaults.local_theta > 0) {
    rope = read_layers(config, kFullLayers, "rope_theta", "rope_scaling", defaults.theta);
    const Rope local =
        read_layers(config, kWindowLayers, "rope_local_base_freq", nullptr, defaults.local_theta);
    if (local.scaling.factor != 1.0) {
      config.object("rope_parameters").object(kWindowLayers).refuse("rope_type", "\"default\"");
    }
    llama.rope_local_theta = local.theta;
  } else if (config.has("rope_parameters")) {
    rope = read_form(config, "rope_parameters", defaults.theta);
    if (config.has("rope_scaling") && !(read_form(config, "rope_scaling", defaults.theta) == rope)) {
      config.refuse_contradiction("rope_scaling", "rope_parameters");
    }
  } else {
    rope = read_form(config, "rope_scaling", defaults.theta);
  }
  llama.rope_theta = rope.theta;
  llama.rope_scaling = rope.scaling;
}

void write_hf_rope(const LlamaConfig& llama, bool by_layer, nlohmann::ordered_json& config) {
  if (by_layer) {
    const double local = llama.rope_local_theta > 0 ? llama.rope_local_theta : llama.rope_theta;
    config["rope_parameters"] = {{kFullLayers, object_json(llama.rope_theta, llama.rope_scaling)},
                                 {kWindowLayers, object_json(local, {})}};
    return;
  }
  config["rope_theta"] = llama.rope_theta;
  config["rope_scaling"] = scaling_json(llama.rope_scaling);
}

}  // namespace trireme
