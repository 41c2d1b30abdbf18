#include "launcher/train/host_logits.h"

#include "runtime/base/error.h"

namespace trireme {

HostLogits::HostLogits(const Context& ctx, const Tensor& logits, const Tensor& targets)
    : num_classes_(logits.shape().dim(-1)),
      values_(ctx.to_host(logits)),
      targets_(static_cast<std::size_t>(targets.num_elems())) {
  ctx.backend->copy_to_host(ctx.exec, targets_.data(), targets);
  TRIREME_CHECK(logits.shape().num_rows() == targets.num_elems(), "logits {} are not of targets {}",
                logits.shape().to_string(), targets.shape().to_string());
}

std::span<const float> HostLogits::row(std::size_t row) const {
  const auto elems = static_cast<std::size_t>(num_classes_);
  return std::span(values_).subspan(row * elems, elems);
}

}  // namespace trireme
