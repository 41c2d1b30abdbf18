// The fastest layouts of a job on a cluster, among those that fit into a rank's memory.
//
// [Note: search of layouts] Every combination of tensor ranks (with and without a shared sequence), pipeline
// stages, schedule and chunks, ZeRO stage, recompute and exchange is a candidate; the rest of the ranks is
// data ranks, which need not divide the micro-batches. None changes a bit of the results; micro-batches do,
// and vary only where they may. GPipe is left out: 1F1B takes its time with less memory. The search goes on
// with the candidate that may be fastest, and finds one more thing about it ([Note: bounds of layouts]); it
// ends where no candidate can be faster than the last of the best. What surely does not fit is left out on
// the way. Of what is left the step is simulated ([Note: folded plans]), and if that is fast enough, the
// memory predicted to the byte. Each layout accumulates in the fastest way that fits. Layouts of equal time
// and memory that differ in nothing but how they recompute and share with data ranks are one: the simplest.
// Stages that do not fit as they are cut are cut as training would ([Note: search of cuts]).
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "parallel/foresee/accumulation_choice.h"
#include "parallel/foresee/layout_candidates.h"
#include "parallel/foresee/plan_price.h"

namespace trireme {

/// Of a search that goes on.
struct SearchProgress {
  std::size_t num_open = 0;  // layouts and families of them that may still be among the best
  double open_ms = 0;        // none of them takes less
  int num_timed = 0, num_too_large = 0;
  double best_ms = 0;  // 0: none was found yet
};

struct LayoutSearchOptions {
  std::size_t most = 10;            // layouts to find
  bool varies_micro_batch = false;  // changes the results: sums are rounded differently
  // Ways to accumulate may use the whole limit, which the job has named; else those that keep more than they
  // must leave an eighth of it.
  bool uses_whole_limit = false;
  OpenFields open = searched_fields();  // of the layout; the job's values of the others are kept
  int threads = 1;                      // that search: see [Note: search by threads]
  /// Throws Error(kInvalidInput) for a layout that the caller would not run; null: runs all. Called by
  /// several threads at once.
  std::function<void(const EngineOptions&)> check;
  std::function<void(const SearchProgress&)> on_progress;  // called now and then; null: not at all
};

struct FoundLayout {
  PlannedJob job;
  PlanPrice price;  // without its timeline
  std::int64_t peak_bytes = 0;
};

struct FoundLayouts {
  std::vector<FoundLayout> best;  // fastest first
  int num_candidates = 0, num_too_large = 0, num_refused = 0, num_timed = 0;
  /// Where none fits, the one that needs least.
  std::optional<PlannedJob> closest;
  std::int64_t closest_bytes = 0;
};

/// Of a job on `job.num_ranks` ranks, each with `limit_bytes`. Throws Error(kInvalidInput) as price_plan().
FoundLayouts search_layouts(const PlannedJob& job, const Cluster& cluster, const ClusterDevice& device,
                            std::int64_t limit_bytes, const LayoutSearchOptions& options);

}  // namespace trireme
