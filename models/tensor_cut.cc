#include "models/tensor_cut.h"

#include <bit>

#include "runtime/base/error.h"

namespace trireme {

void check_tensor_cut(std::string_view model, int tensor_chunks, const CutExtent& heads,
                      std::initializer_list<CutExtent> extents) {
  TRIREME_CHECK(tensor_chunks >= 1 && std::has_single_bit(static_cast<unsigned>(tensor_chunks)),
                "{}: tensor_chunks {} is not a power of two", model, tensor_chunks);
  for (const CutExtent& extent : extents) {
    TRIREME_CHECK(extent.size % tensor_chunks == 0, "{}: tensor_chunks {} does not divide {} {}", model,
                  tensor_chunks, extent.name, extent.size);
  }
  TRIREME_CHECK(tensor_chunks == 1 || heads.size % 2 == 0,
                "{}: {} {} is odd, so that no two tensor ranks could share them; use tensor_chunks 1, not {}",
                model, heads.name, heads.size, tensor_chunks);
}

}  // namespace trireme
