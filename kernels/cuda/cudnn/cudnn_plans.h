// cuDNN's handle, and the plans that have been made with it, one a problem.
//
// [Note: engines of cuDNN] Taken is the first engine that cuDNN's heuristics propose, fitting the limits of
// the problem. They decide by the shape, the card and the library's version alone, so all ranks and all runs
// of a job have the same engine and its bits. Choosing by measurement was rejected for that reason: two
// engines that take about the same time are swapped by noise, between ranks, between two runs, and between a
// run and the one that resumes it elsewhere, and their sums differ in the last bits. A table of measured
// choices that travels with the job would be as exact; it is worth its key and its file when a card shows
// that the heuristics lose.
//
// A plan that was built may still be refused when it runs. cuDNN says so before it enqueues anything; the
// next proposal within the limits runs in its place from then on, and last the native kernel.
//
// None is built while a step is recorded: see expect_no_capture().
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cuda/cudnn/cudnn_graph.h"
#include "kernels/cuda/cudnn/cudnn_handle.h"
#include "kernels/cuda/device/check.h"
#include "runtime/base/log.h"

namespace trireme::cuda {

class CudnnHandle {
 public:
  explicit CudnnHandle(cudaStream_t stream);
  ~CudnnHandle();
  CudnnHandle(const CudnnHandle&) = delete;
  CudnnHandle& operator=(const CudnnHandle&) = delete;

  cudnnHandle_t get() const { return handle_; }
  cudaStream_t stream() const { return stream_; }

 private:
  const cudaStream_t stream_;
  cudnnHandle_t handle_ = nullptr;
};

/// `Problem` is ordered and has forms(), the number of graphs that compute it, of which the first that has a
/// plan is taken; graph(form); limits(form); text(), which begins with the op's name; and successor(), which
/// says what runs where cuDNN has nothing.
template <class Problem>
class CudnnPlans {
 public:
  /// Whether a plan of a form that has been built may be taken.
  using Trial = std::function<bool(const Problem& problem, int form, const CudnnPlan& plan)>;

  explicit CudnnPlans(std::shared_ptr<CudnnHandle> handle, Trial trial = {})
      : handle_(std::move(handle)), trial_(std::move(trial)) {}

  cudnnHandle_t handle() const { return handle_->get(); }
  cudaStream_t stream() const { return handle_->stream(); }

  /// Null where cuDNN has none, which is said once. See [Note: engines of cuDNN].
  const CudnnPlan* plan_for(const Problem& problem) {
    auto found = plans_.find(problem);
    if (found == plans_.end()) found = plans_.emplace(problem, build(problem)).first;
    return found->second.plan ? &*found->second.plan : nullptr;
  }

  /// Runs the problem's plan, and the next one that can be built where cuDNN refuses. `run` is called with a
  /// plan and says whether it ran. False when none is left; each refusal is said once.
  template <class Run>
  bool run(const Problem& problem, const Run& run) {
    while (const CudnnPlan* plan = plan_for(problem)) {
      if (run(*plan)) return true;
      log_warning(fmt::format("cuda: cuDNN {} refused to run proposal {}.{} for {}; the next one runs",
                              cudnn_version(), plans_.at(problem).form, plan->place(), problem.text()));
      Choice next = build(problem, plans_.at(problem).form, plan->place() + 1);
      plans_.erase(problem);
      plans_.emplace(problem, std::move(next));
    }
    return false;
  }

 private:
  struct Choice {
    std::optional<CudnnPlan> plan;
    int form = 0;
  };

  // The first plan from proposal `first` of `form` on.
  Choice build(const Problem& problem, int form = 0, std::size_t first = 0) const {
    expect_no_capture(handle_->stream(), problem.text());
    std::string reason = first == 0 ? "no engine is proposed" : "none is left";
    for (; form < problem.forms(); ++form, first = 0) {
      EngineLimits limits = problem.limits(form);
      limits.first = first;
      try {
        while (auto plan = problem.graph(form).build(handle_->get(), limits)) {
          if (!trial_ || trial_(problem, form, *plan)) return {std::move(plan), form};
          limits.first = plan->place() + 1;
        }
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kUnsupported) throw;
        reason = error.what();
      }
    }
    log_warning(fmt::format("cuda: cuDNN {} has no fitting engine for {} ({}); {}", cudnn_version(),
                            problem.text(), reason, problem.successor()));
    return {};
  }

  const std::shared_ptr<CudnnHandle> handle_;
  const Trial trial_;
  std::map<Problem, Choice> plans_;  // gone before the handle
};

}  // namespace trireme::cuda
