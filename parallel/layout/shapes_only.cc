#include "parallel/layout/shapes_only.h"

#include "runtime/base/error.h"

namespace trireme {

Activations forward_for_shapes(const Block& block, Context& ctx, const Activations& input,
                               const Batch& batch) {
  try {
    return block.forward(ctx, input, batch);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("running block '{}' for its shapes: {}", block.name(), e.what()),
                e.where());
  }
}

}  // namespace trireme
