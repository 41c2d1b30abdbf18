// Searches the layouts of a job for one that needs less memory, without an allocation of the model's size.
//
// [Note: order of remedies] Changes are tried from cheap to dear, and the first that fits is told: a larger
// parallel.zero (more messages; with it what accumulate_unsharded and keep_gathered keep over the
// micro-batches of a step is given up, in the order of [Note: order of accumulation]), then recompute
// (a third more work; longer segments first), then a smaller train.micro_batch (matmuls that fill the device
// less), then more ranks (somebody has to pay for them; every number that shares the micro-batches evenly, in
// ascending order). A dearer change is tried together with the cheaper ones. None of them changes the
// results, except that a different micro-batch rounds differently.
//
// [Note: what a layout needs at least] There may be thousands of layouts. A few figures rule most of them
// out: what a rank of so many ranks holds through all of a step (parameters and optimizer state) and, where
// the model is one stage, the largest sum of activations of a micro-batch and the partial sums of gradients
// that are never fewer while one of the micro-batches runs. All of it is alive at one moment, so a layout
// needs at least their sum. What is left is predicted up to the first byte beyond the limit: first a step of
// one micro-batch, as further ones only add partial sums, then the step itself.
//
// How many partial sums there are: after n leaves of the tree in [Note: canonical reduction] as many as n has
// ones in binary. While a micro-batch runs n moves by 1, or, where each micro-batch is reduced, within three
// rounds of the data ranks; the last 2^a numbers below 2^k have k - a ones at least.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "launcher/config/config.h"
#include "parallel/foresee/predict.h"

namespace trireme {

/// A changed job that fits.
struct Remedy {
  JobConfig config;
  int num_ranks = 1;
  std::vector<std::string> changes;  // "parallel.zero = 2", "4 ranks"
  std::int64_t peak_bytes = 0;       // of a rank
};

/// Where none fits: the layout that needs least.
struct SmallestLayout {
  std::vector<std::string> changes;
  std::int64_t peak_bytes = 0;   // of a rank
  std::string action;            // when: "Backward unit 3 (head) micro-batch 0"
  std::string block;             // beside whose run most is alive that is no state of the model; or ""
  std::string block_action;      // when
  std::int64_t block_bytes = 0;  // of it: activations, batch and exchanged buffers
};

class RemedySearch {
 public:
  /// For a job that needs more than `limit_bytes` on one of `num_ranks` ranks.
  RemedySearch(JobConfig config, std::shared_ptr<const BlockList> blocks, int num_ranks,
               std::int64_t limit_bytes);

  /// The first remedy in the order of the note; nothing where no layout fits.
  std::optional<Remedy> run();
  /// After run() has found nothing.
  SmallestLayout smallest();

 private:
  struct Layout {
    int ranks = 1;
    std::int64_t micro_batch = 1, recompute = 0, zero = 0;
    bool accumulate_unsharded = false, keep_gathered = false;
  };
  std::vector<Layout> layouts() const;
  /// `layout` as the job keeps gradients and parameters, then with less kept.
  std::vector<Layout> accumulations_of(const Layout& layout) const;
  std::vector<std::int64_t> rank_counts() const;
  std::vector<std::int64_t> recompute_choices() const;
  std::int64_t data_ranks(const Layout& layout) const { return layout.ranks / config_.parallel.pipeline; }
  /// The least number of micro-batches of a rank that the schedule takes.
  std::int64_t fewest_micro_batches() const;
  JobConfig job_of(const Layout& layout) const;
  /// See [Note: what a layout needs at least].
  std::int64_t at_least(const Layout& layout);
  std::int64_t state_bytes(const Layout& layout);
  /// A micro-batch alone.
  struct MicroBatchNeed {
    std::int64_t activations = 0;  // largest sum
    std::int64_t gradients = 0;    // of the whole model, one sum
  };
  MicroBatchNeed micro_batch_need(const Layout& layout);
  std::int64_t partial_sum_bytes(const Layout& layout, std::int64_t gradients) const;
  std::optional<StepPrediction> predict(const Layout& layout, std::int64_t limit) const;
  std::vector<std::string> changes_of(const Layout& layout) const;

  const JobConfig config_;
  const std::shared_ptr<const BlockList> blocks_;
  const int num_ranks_;
  const std::int64_t limit_bytes_;
  const std::vector<Layout> layouts_;                                      // in order
  std::map<std::tuple<int, std::int64_t, bool>, std::int64_t> state_;      // by ranks, zero, whole gradients
  std::map<std::pair<std::int64_t, std::int64_t>, MicroBatchNeed> needs_;  // by micro-batch and recompute
};

}  // namespace trireme
