// Scratch memory of one kernel call.
#pragma once

#include <cstddef>

#include "kernels/backend.h"

namespace trireme::cuda {

/// Counted as MemoryCategory::kWorkspace. May be destroyed once the kernels that use it are enqueued: see
/// [Note: stream-ordered reuse].
class Workspace {
 public:
  Workspace(const KernelContext& exec, std::size_t bytes)
      : allocator_(*exec.allocator),
        bytes_(bytes),
        data_(allocator_.allocate(bytes_, MemoryCategory::kWorkspace)) {}
  ~Workspace() { allocator_.deallocate(data_, bytes_, MemoryCategory::kWorkspace); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  Allocator& allocator_;
  std::size_t bytes_;
  void* data_;
};

}  // namespace trireme::cuda
