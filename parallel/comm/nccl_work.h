// The state of one NCCL operation.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "parallel/comm/nccl_job.h"

namespace trireme {

class NcclWork : public Work::Impl {
 public:
  NcclWork(std::shared_ptr<NcclJob> job, std::shared_ptr<CommEvent> done, std::vector<Tensor> tensors)
      : job_(std::move(job)), done_(std::move(done)), tensors_(std::move(tensors)) {}

  void wait() override {
    job_->throw_if_failed();
    done_->make_wait(job_->compute_stream());
  }
  void abandon() noexcept override { job_->keep(done_, std::move(tensors_)); }

 private:
  std::shared_ptr<NcclJob> job_;
  std::shared_ptr<CommEvent> done_;
  std::vector<Tensor> tensors_;
};

/// 16-bit and 8-bit floats are only moved; Communicator rejects reducing them.
inline ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return ncclFloat32;
    case DType::kFloat16:
      return ncclFloat16;
    case DType::kBFloat16:
      return ncclBfloat16;
    case DType::kInt32:
      return ncclInt32;
    case DType::kUInt8:
    case DType::kE4m3:
    case DType::kE5m2:
      return ncclUint8;
  }
  return ncclUint8;
}

}  // namespace trireme
