#include "runtime/base/tensor_view.h"

#include "runtime/base/error.h"

namespace trireme {

void throw_no_values(DType dtype, const Shape& shape) {
  throw Error(
      ErrorCode::kInvalidInput,
      "this tensor has no values: it lives on the meta device, where only shapes are worked out, here "
      "{} {}; decide by shapes alone, or read and write elements only where "
      "traits(tensor.device().type).computes is true (runtime/README.md, \"Ops and blocks of your "
      "own\")",
      name(dtype), shape.to_string());
}

}  // namespace trireme
