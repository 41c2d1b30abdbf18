#include "models/vit.h"

#include <fmt/ranges.h>

#include "models/patch_embedding.h"
#include "models/vit_block.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

void check_config(const VitConfig& c) {
  TRIREME_CHECK(c.layers >= 1 && c.hidden >= 1 && c.heads >= 1 && c.ffn >= 1 && c.classes >= 1,
                "vit: layers {}, hidden {}, heads {}, ffn {} and classes {} must all be positive", c.layers,
                c.hidden, c.heads, c.ffn, c.classes);
  constexpr std::int64_t kMaxLayers = 10000;  // see build_gpt
  TRIREME_CHECK(c.layers <= kMaxLayers, "vit: {} layers exceed the maximum of {}", c.layers, kMaxLayers);
  TRIREME_CHECK(c.hidden % c.heads == 0, "vit: hidden {} is not a multiple of heads {}", c.hidden, c.heads);
  TRIREME_CHECK(c.patch >= 1 && c.image_size >= c.patch && c.image_size % c.patch == 0,
                "vit: an image of {0} x {0} pixels cannot be split into patches of {1} x {1}", c.image_size,
                c.patch);
  TRIREME_CHECK(c.pool != TokenPool::kSequence, "vit: pools by a class token or the mean");
  TRIREME_CHECK(c.stochastic_depth >= 0 && c.stochastic_depth < 1,
                "vit: stochastic_depth = {} is not in [0, 1)", c.stochastic_depth);
  TRIREME_CHECK(c.label_smoothing >= 0 && c.label_smoothing < 1, "vit: label_smoothing = {} is not in [0, 1)",
                c.label_smoothing);
}

}  // namespace

VitConfig vit_config_for_size(std::string_view size) {
  if (size == "ti") return {.hidden = 192, .heads = 3, .ffn = 768};
  if (size == "s") return {.hidden = 384, .heads = 6, .ffn = 1536};
  if (size == "b") return {};
  if (size == "l") return {.layers = 24, .hidden = 1024, .heads = 16, .ffn = 4096};
  if (size == "h") return {.layers = 32, .hidden = 1280, .heads = 16, .ffn = 5120, .patch = 14};
  throw Error(ErrorCode::kInvalidInput,
              "vit: there is no size '{}'; use {}, or give layers, hidden and heads instead", size,
              fmt::join(kVitSizes, ", "));
}

BlockList build_vit(const VitConfig& config) {
  check_config(config);
  BlockList blocks;
  blocks.push_back(std::make_unique<PatchEmbedding>(config));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    blocks.push_back(std::make_unique<VitBlock>(
        fmt::format("blocks.{}", i), fmt::format("encoder.layers.encoder_layer_{}", i),
        VitBlockConfig{
            .hidden = config.hidden,
            .heads = config.heads,
            .ffn = config.ffn,
            .norm_epsilon = static_cast<float>(config.norm_epsilon),
            .dropout = config.dropout,
            .stochastic_depth = stochastic_depth_of_layer(config.stochastic_depth, i, config.layers),
            .chunks = config.tensor_chunks,
            .class_token_only = config.pool == TokenPool::kClassToken && i == config.layers - 1}));
  }
  blocks.push_back(std::make_unique<TokenPoolHead>(
      TokenPoolHeadConfig{.norm = "encoder.ln",
                          .classes_name = "heads.head",
                          .hidden = config.hidden,
                          .classes = config.classes,
                          .pool_kind = config.pool,
                          .norm_epsilon = static_cast<float>(config.norm_epsilon),
                          .label_smoothing = config.label_smoothing}));
  return blocks;
}

}  // namespace trireme
