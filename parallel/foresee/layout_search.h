// The fastest layouts of a job on a cluster, among the ones that fit into a rank's memory.
//
// [Note: search of layouts] Every combination of tensor ranks (with and without a shared sequence), pipeline
// stages, schedule and chunks, ZeRO stage, recompute and exchange is a candidate. The remaining ranks are
// data ranks, which need not divide the micro-batches. No candidate changes a bit of the results, except for
// the micro-batch, which varies only if the options allow it. GPipe is left out: 1F1B takes the same time
// with less memory.
//
// The search repeatedly takes the candidate with the least bound on its time ([Note: bounds of layouts]). It
// ends when no bound is below the time of the last of the best. A candidate with a cheap bound gets its
// second one. With the second bound it is tried: a short step rejects layouts that need too much memory, the
// others are simulated ([Note: folded plans]), and if the step is fast enough, the memory is predicted to the
// byte. Each layout accumulates in the fastest way that fits. Stages that do not fit with their cut are cut
// as training would cut them ([Note: search of cuts]). Layouts with equal time and memory that differ only in
// recompute and in sharing with data ranks count as one: the simplest.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/plan_price.h"

namespace trireme {

/// Progress of a running search.
struct SearchProgress {
  std::size_t num_open = 0;  // candidates that may still be among the best
  double open_ms = 0;        // lower bound of their times
  int num_timed = 0, num_too_large = 0;
  double best_ms = 0;  // 0: none found yet
};

struct LayoutSearchOptions {
  std::size_t most = 10;            // number of layouts to find
  bool varies_micro_batch = false;  // changes the results: sums are rounded differently
  // True: the job sets the limit, and choices of accumulation may use all of it. False: choices that keep
  // more than necessary may use up to 7/8 of it.
  bool uses_whole_limit = false;
  OpenFields open = searched_fields();  // fields to search; the job's values of the others are kept
  int threads = 1;                      // search threads: see [Note: search by threads]
  /// Throws Error(kInvalidInput) for a layout that the caller would refuse; null: accepts all. Called by
  /// several threads at once.
  std::function<void(const EngineOptions&)> check;
  std::function<void(const SearchProgress&)> on_progress;  // called from time to time; may be null
};

struct FoundLayout {
  PlannedJob job;
  PlanPrice price;  // without its timeline
  std::int64_t peak_bytes = 0;
};

struct FoundLayouts {
  std::vector<FoundLayout> best;  // fastest first
  int num_candidates = 0, num_too_large = 0, num_refused = 0, num_timed = 0;
  /// If none fits, the one that needs the least memory with the fastest cut.
  std::optional<PlannedJob> closest;
  std::int64_t closest_bytes = 0;
};

/// Searches layouts of a job on `job.num_ranks` ranks, each with `limit_bytes`. Throws Error(kInvalidInput)
/// as price_plan() does.
FoundLayouts search_layouts(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                            std::int64_t limit_bytes, const LayoutSearchOptions& options);

}  // namespace trireme
