// Stubs for a build without NCCL.
#include "parallel/comm/nccl.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

[[noreturn]] void refuse() {
  throw Error(ErrorCode::kUnsupported,
              "this build has no NCCL: configure with `cmake --preset cuda` where CUDA and NCCL are "
              "installed, or use device = \"cpu\"");
}

}  // namespace

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator>, Device,
                                                     std::chrono::seconds) {
  refuse();
}

std::string nccl_version() {
  return "";
}

}  // namespace trireme
