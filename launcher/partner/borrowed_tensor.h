// Memory that somebody else made, such as a mapped file, as a tensor that a communicator takes.
#pragma once

#include <memory>
#include <span>

#include "runtime/tensor.h"

namespace trireme {

/// uint8, on the host. `owner` keeps the bytes, which begin at a page, and lives as long as the tensor. What
/// may only be read is only to be sent.
Tensor borrowed_tensor(std::shared_ptr<const void> owner, std::span<const std::byte> bytes);

}  // namespace trireme
