#include "models/cct.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "models/conv_tokenizer.h"
#include "models/token_pool_head.h"
#include "models/vit_block.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr float kNormEpsilon = 1e-5f;

void check_config(const CctConfig& c) {
  TRIREME_CHECK(
      c.layers >= 1 && c.hidden >= 1 && c.heads >= 1 && c.ffn >= 1 && c.classes >= 1 && c.image_size >= 1,
      "cct: layers {}, hidden {}, heads {}, ffn {}, classes {} and image_size {} must all be positive",
      c.layers, c.hidden, c.heads, c.ffn, c.classes, c.image_size);
  constexpr std::int64_t kMaxLayers = 10000, kMaxConvs = 16;  // for kMaxLayers see build_gpt
  TRIREME_CHECK(c.layers <= kMaxLayers, "cct: {} layers exceed the maximum of {}", c.layers, kMaxLayers);
  TRIREME_CHECK(c.convs >= 1 && c.convs <= kMaxConvs, "cct: {} convolutions are not 1 to {}", c.convs,
                kMaxConvs);
  TRIREME_CHECK(c.hidden % c.heads == 0, "cct: hidden {} is not a multiple of heads {}", c.hidden, c.heads);
  TRIREME_CHECK(c.stochastic_depth >= 0 && c.stochastic_depth < 1,
                "cct: stochastic_depth = {} is not in [0, 1)", c.stochastic_depth);
  TRIREME_CHECK(c.label_smoothing >= 0 && c.label_smoothing < 1, "cct: label_smoothing = {} is not in [0, 1)",
                c.label_smoothing);
}

}  // namespace

std::int64_t CctConfig::side() const {
  std::int64_t side = image_size;
  for (std::int64_t i = 0; i < convs; ++i) side = (side - 1) / 2 + 1;  // window 3, stride 2, padding 1
  return side;
}

CctConfig cct_config_for_size(std::string_view size) {
  if (size == "2/3x2") return {};
  if (size == "4/3x2") return {.layers = 4};
  CctConfig wide{.hidden = 256, .heads = 4, .ffn = 512};
  wide.layers = size.starts_with("6/") ? 6 : 7;
  wide.convs = size.ends_with("x1") ? 1 : 2;
  if (std::ranges::find(kCctSizes, size) != std::end(kCctSizes)) return wide;
  throw Error(ErrorCode::kInvalidInput,
              "cct: there is no size '{}'; use {}, or give layers, hidden and heads instead", size,
              fmt::join(kCctSizes, ", "));
}

BlockList build_cct(const CctConfig& config) {
  check_config(config);
  BlockList blocks;
  blocks.push_back(std::make_unique<ConvTokenizer>(config));
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string name = fmt::format("blocks.{}", i);
    blocks.push_back(std::make_unique<VitBlock>(name, name,
                                                VitBlockConfig{.hidden = config.hidden,
                                                               .heads = config.heads,
                                                               .ffn = config.ffn,
                                                               .qkv_bias = false,
                                                               .norm_epsilon = kNormEpsilon,
                                                               .dropout = config.dropout,
                                                               .stochastic_depth = stochastic_depth_of_layer(
                                                                   config.stochastic_depth, i, config.layers),
                                                               .chunks = config.tensor_chunks}));
  }
  blocks.push_back(
      std::make_unique<TokenPoolHead>(TokenPoolHeadConfig{.prefix = "head",
                                                          .hidden = config.hidden,
                                                          .classes = config.classes,
                                                          .pool_kind = TokenPool::kSequence,
                                                          .norm_epsilon = kNormEpsilon,
                                                          .label_smoothing = config.label_smoothing}));
  return blocks;
}

}  // namespace trireme
