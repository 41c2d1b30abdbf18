#include "models/lstm_layer.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/key_value_cache.h"
#include "runtime/ops/dropout.h"

namespace trireme {

LstmLayer::LstmLayer(const LstmLayerConfig& config)
    : Block(fmt::format("rnn.{}", config.index), "rnn"), dropout_(config.dropout) {
  const std::int64_t gates = 4 * config.hidden;
  const Initializer init = Initializer::uniform(1.0f / std::sqrt(static_cast<float>(config.hidden)));
  const auto name = [&](const char* what) { return fmt::format("{}_l{}", what, config.index); };
  parameters_.w_ih =
      declare({.name = name("weight_ih"), .shape = {gates, config.inputs}, .init = init, .allows_fp8 = true});
  parameters_.w_hh = declare({.name = name("weight_hh"), .shape = {gates, config.hidden}, .init = init});
  parameters_.b_ih = declare({.name = name("bias_ih"), .shape = {gates}, .init = init, .decay = false});
  parameters_.b_hh = declare({.name = name("bias_hh"), .shape = {gates}, .init = init, .decay = false});
}

Activations LstmLayer::forward(Context& ctx, const Activations& input, const Batch&) const {
  if (ctx.cache == nullptr) {
    return {ops::dropout(ctx, ops::lstm(ctx, input.at(0), parameters_).output, dropout_)};
  }
  KeyValueCache::State& state = ctx.cache->next_state();
  const ops::LstmResult result = ops::lstm(ctx, input.at(0), parameters_, {.h = state.h, .c = state.c});
  state = {.h = result.last.h, .c = result.last.c};
  return {ops::dropout(ctx, result.output, dropout_)};
}

}  // namespace trireme
