// cuDNN's handle, and the plans that have been made with it, one a problem.
//
// [Note: engines of cuDNN] Taken is the first engine that cuDNN's heuristics propose, fitting the limits of
// the problem. They decide by the shape, the card and the library's version alone, so all ranks and all runs
// of a job have the same engine and its bits. Choosing by measurement was rejected for that reason: two
// engines that take about the same time are swapped by noise, between ranks, between two runs, and between a
// run and the one that resumes it elsewhere, and their sums differ in the last bits. A table of measured
// choices that travels with the job would be as exact; it is worth its key and its file when a card shows
// that the heuristics lose.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/cudnn/cudnn_graph.h"
#include "kernels/cuda/cudnn/cudnn_handle.h"
#include "runtime/base/log.h"

namespace trireme::cuda {

class CudnnHandle {
 public:
  explicit CudnnHandle(cudaStream_t stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// `Problem` is ordered and has graph(), limits() and text(), which begins with the op's name.
template <class Problem>
class CudnnPlans {
 public:
  explicit CudnnPlans(std::shared_ptr<CudnnHandle> handle) : handle_(std::move(handle)) {}

  cudnnHandle_t handle() const { return handle_->get(); }

  /// Null where cuDNN has none, which is said once. See [Note: engines of cuDNN].
  const CudnnPlan* plan_for(const Problem& problem) {
    auto found = plans_.find(problem);
    if (found == plans_.end()) found = plans_.emplace(problem, build(problem)).first;
    return found->second ? &*found->second : nullptr;
  }

 private:
  std::optional<CudnnPlan> build(const Problem& problem) const {
    std::string reason = "no engine is proposed";
    try {
      auto plan = problem.graph().build(handle_->get(), problem.limits());
      if (plan) return plan;
    } catch (const Error& error) {
      reason = error.what();
    }
    log_warning(fmt::format("cuda: cuDNN {} has no fitting engine for {} ({}); the slower native kernel runs",
                            cudnn_version(), problem.text(), reason));
    return std::nullopt;
  }

  const std::shared_ptr<CudnnHandle> handle_;
  std::map<Problem, std::optional<CudnnPlan>> plans_;  // gone before the handle
};

}  // namespace trireme::cuda
