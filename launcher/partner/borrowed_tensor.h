// Wraps existing memory, such as a mapped file, as a tensor for a communicator.
#pragma once

#include <memory>
#include <span>

#include "runtime/tensor.h"

namespace trireme {

/// A uint8 tensor on the host. `owner` keeps the bytes alive for the tensor's lifetime. `bytes` must begin at
/// a page. Read-only memory may only be sent.
Tensor borrowed_tensor(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

}  // namespace trireme
