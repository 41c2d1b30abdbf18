// Blocks in C++ for a model that Python trains: a small network on single tokens in place of each layer of a
// GPT. "Blocks for Python" in ../extending.md says how to build and load the library.
#include "runtime/block_library.h"
#include "runtime/ops/linear.h"

namespace {
using namespace trireme;

/// x + down(gelu(up(x))): [B, T, C] -> [B, T, C].
class TokenNetwork final : public Block {
 public:
  TokenNetwork(std::string name, std::int64_t hidden, std::int64_t inner) : Block(std::move(name)) {
    up_ = declare({.name = "up.weight", .shape = {inner, hidden}, .init = Initializer::normal(0.1f)});
    down_ = declare({.name = "down.weight", .shape = {hidden, inner}, .init = Initializer::normal(0.1f)});
  }
  Activations forward(Context& ctx, const Activations& input, const Batch&) const override {
    const Tensor inner = ops::linear(ctx, input[0], up_, {.activation = Activation::kGeluTanh});
    return {ops::linear(ctx, inner, down_, {.residual = input[0]})};
  }

 private:
  ParamRef up_, down_;
};

BlockList build(BlockRequest request) {
  // The table of the first block is [vocabulary, C].
  const std::int64_t hidden = request.model.front()->parameters().front().shape[1];
  for (std::size_t i = 1; i + 1 < request.model.size(); ++i) {
    request.model[i] =
        std::make_unique<TokenNetwork>("networks." + std::to_string(i - 1), hidden, request.number("inner"));
  }
  return std::move(request.model);
}

}  // namespace

TRIREME_BLOCKS(build)
